"""A override for cuQuantum."""
