"""I/O: a loopback provider, a recorded session and the show.

show, outcome           what is shown, and what it came to in numbers
race, play              one session twice, turn by turn; the agent's side of it
serving                 ASGI apps as servers on loopback
provider, sessions      the provider that answers; the recorded session
"""
