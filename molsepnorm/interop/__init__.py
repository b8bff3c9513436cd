"""Exchange with other libraries."""
