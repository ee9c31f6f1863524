"""Networks: a backbone and a head, and what tasks build of them."""
