# SPDX-License-Identifier: MIT
"""Workload: a loop over small numbers with a dict and a list, then a sort with a key."""


def tally(n):
    seen = {}
    odd = []
    x = 17
    for i in range(n):
        x = (x * 1103 + 12345) % 65521
        key = x % 701
        seen[key] = seen.get(key, 0) + 1
        if key & 1 and i % 5 == 0:
            odd.append(x - i)
    return seen, odd


seen, odd = tally(1_050_000)
odd.sort(key=lambda v: (v % 1000, v))
words = sorted(f"{k}:{n}" for k, n in seen.items())
print(len(odd), odd[7], odd[-7], words[5], sum(seen.values()))
