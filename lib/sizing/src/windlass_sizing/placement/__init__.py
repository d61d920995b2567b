"""Cards, splits over cards, the memory formula, and the choice and advice made from them. Pure."""
