"""`rankops demo`: a page where one moves digits, and sees the order that label rankers give them."""
