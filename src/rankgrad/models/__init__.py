"""Networks: a backbone and a head, and the networks that tasks build from them."""
