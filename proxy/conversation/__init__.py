"""Pure: the neutral nouns that all rooms use; imports only errors.

model, names            messages and their parts; names of models
fingerprint             who a conversation is: a chained digest
pairing                 what stands or falls together
edit                    plans and edits
lines, recall           what is kept between turns of one line; what is kept by bytes and texts
steps                   long computations that can be taken in pieces
"""
