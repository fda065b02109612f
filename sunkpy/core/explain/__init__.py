"""What a person wants to know of a pod or gang, in words: made from the decisions, which stay the only rules.

`Facts` go in, an `Explanation` comes out. Why a gang waits is what `decide_gang` reports; here are only the words
around it, and what a person can do about it.
"""
