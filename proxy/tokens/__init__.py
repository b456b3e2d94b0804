"""Pure: counting. Usage as reported, estimates, the unified formula, what is learned, windows.

estimate, media         messages to tokens; pictures, sound and documents
pieces                  long texts, counted with a turn for others in between
usage                   what a provider reported, in one form
context                 the unified formula, and the rows that it is made of
learn, fit              what actual counts teach, and the small model that is fitted to them
treatment               what a provider makes of earlier reasoning, in words
windows, window_rows    context windows by model; the generated rows
"""
