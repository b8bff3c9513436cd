"""Files that are written whole or not at all, sealed with a digest, and read with clear errors."""
