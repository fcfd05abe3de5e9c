"""Static checking: from the events of the analysis to findings and their fixes."""
