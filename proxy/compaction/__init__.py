"""Pure: deciding what is summarised.

policy, span            when, and which messages
prompt, summary         what the model is asked, and whether its answer is good enough
record, steps           the record that no model writes, and its list of steps
constraints             the user's words that are kept as they are
squeeze                 results that are new and too much together
"""
