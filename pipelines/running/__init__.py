"""How stages run: started, followed, and their data held against what must hold."""
