"""Files that are written atomically, sealed with a digest, and read with clear errors."""
