"""The arguments to build and call a target with: from calls in the source, stated shapes, and guesses."""
