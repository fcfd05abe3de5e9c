"""The arguments for building and calling a target: from calls in the source, stated shapes, and guesses."""
