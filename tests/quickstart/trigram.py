#!/usr/bin/env python3
"""The validation loss, in nats a token, of an interpolated trigram model (Witten-Bell) of a prepared data set: what a
model that learned anything beyond two tokens of context must beat. usage: trigram.py PREFIX SEQ_LENGTH VALID_FRACTION"""
import array
import collections
import math
import sys

VOCABULARY = 257


def read(prefix):
    """The tokens of PREFIX.bin (uint16, Megatron's layout)."""
    tokens = array.array('H')
    with open(prefix + '.bin', 'rb') as file:
        tokens.frombytes(file.read())
    return tokens


def counts(tokens):
    """For each order: context -> {token: count}."""
    grams = [collections.defaultdict(collections.Counter) for _ in range(3)]
    for (a, b, c), n in collections.Counter(zip(tokens, tokens[1:], tokens[2:])).items():
        for order, context in enumerate(((), (b,), (a, b))):
            grams[order][context][c] += n
    return [{context: (sum(seen.values()), seen) for context, seen in order.items()} for order in grams]


def loss(grams, tokens):
    """Mean of -log P(token | the two before) over all tokens but the first two."""
    memory = {}

    def probability(a, b, c):
        p = 1 / VOCABULARY
        for order, context in enumerate(((), (b,), (a, b))):
            if context not in grams[order]:
                break
            total, seen = grams[order][context]
            p = (seen[c] + len(seen) * p) / (total + len(seen))
        return p

    total = 0.0
    for gram in zip(tokens, tokens[1:], tokens[2:]):
        if gram not in memory:
            memory[gram] = -math.log(probability(*gram))
        total += memory[gram]
    return total / (len(tokens) - 2)


def trigram_loss(prefix, seq_length, valid_fraction):
    """With the split of the module data: the last round(samples * valid_fraction) samples validate."""
    tokens = read(prefix)
    samples = (len(tokens) - 1) // seq_length
    first_valid = (samples - max(1, round(samples * valid_fraction))) * seq_length
    return loss(counts(tokens[:first_valid + 1]), tokens[first_valid:samples * seq_length + 1])


if __name__ == '__main__':
    print(f'{trigram_loss(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])):.4f}')
