"""What is minimized. A problem turns value, gradient, curvature and line search into rounds.

A problem knows its formula and the engine's protocol, and nothing of how rows are stored or
where. Solvers know a problem's methods, and nothing of rows.
"""
