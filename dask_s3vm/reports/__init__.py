"""What a run leaves behind: files in a folder (`record`), pictures (`figures`), a page (`page`)."""
