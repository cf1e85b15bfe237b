"""Records of runs: the folder of a run (`record`), its pictures, its HTML page, its model."""
