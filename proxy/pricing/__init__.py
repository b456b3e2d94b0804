"""Pure: prices, the cache model, what a call cost and would have cost.

prices, price_rows      what tokens cost and how prompt caches behave; the generated rows
cost, cache             what a call cost; a simulated prompt cache
"""
