"""What every other package shares: sequences, masks, fields, batches, losses, contracts, the registry."""
