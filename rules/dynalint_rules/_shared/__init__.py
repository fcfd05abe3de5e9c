"""What several rules need to write a rewrite. No rules here."""
