"""What a target is built and called with: calls written down, shapes stated, values guessed."""
