"""Pure: prices, the cache model, what a call cost and would have cost."""
