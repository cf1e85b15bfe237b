"""What a fit tells while it runs: a progress line, and a page in the browser.

- `course`: where a fit is, kept up to date by its record
- `line`: the progress line
- `publisher`: turns the course of a fit into messages, a few in a second
- `charts`: what is drawn of a history, from the facts of its method
- `board`: takes messages in and holds the state of the page, within fixed bounds
- `page`: the page and its state, as HTTP answers
- `plugin`: the page on the dashboard of a dask scheduler
- `server`: the page of this process, on the loopback interface

On a cluster, messages travel through dask's event log (topic `s3vm`) to a board in the scheduler.
Without one, they go to a board in this process.
"""
