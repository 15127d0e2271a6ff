"""A stub of cuQuantum."""
