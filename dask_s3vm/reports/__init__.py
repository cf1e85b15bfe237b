"""Records of runs: the folder of a run (`record`), and its HTML page with plots (`page`)."""
