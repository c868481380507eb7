"""Files to and from the server: folders, uploads and downloads."""
