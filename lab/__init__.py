"""The shared floor: the lab's words (plan, run, card, event) and the contracts through which the packages meet."""
