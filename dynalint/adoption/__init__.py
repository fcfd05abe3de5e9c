"""Hide existing findings, with baselines, changed lines and ignore comments."""
