"""How problems are solved: numpy on vectors of length d, rounds through a `Problem`."""
