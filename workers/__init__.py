"""From an approved plan to results: cards are given out, trainers are started, watched and recovered."""
