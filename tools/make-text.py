#!/usr/bin/env python3
"""Writes data/text/harbour.txt: the log of a harbour that never was, made by rule.

Ships come and go, carry what they always carry, and the weather follows from the wind. The rules make
the text learnable: a model that has learnt them all still cannot know which ship comes next.

    tools/make-text.py > data/text/harbour.txt
"""
import random

SHIPS = {"Heron": ("barley", "Mara Lind"), "Old Tansy": ("salt", "Piet Oller"),
         "Kestrel": ("copper", "Ana Vey"), "Morning Grey": ("wool", "Tom Harrow"),
         "Lantern": ("lamp oil", "Ines Calder"), "Two Brothers": ("timber", "Jory and Sam Pell"),
         "Wren": ("apples", "Edda Stone"), "Far Meadow": ("honey", "Luc Amsel")}
PORTS = ["Annisport", "Low Ferry", "Cold Bay", "Saint Ebba", "the river towns", "Vessel Point"]
WINDS = {"north": ("clear and cold", "The gulls stayed on the roofs."),
         "west": ("grey with rain", "The quay was wet until evening."),
         "south": ("warm and still", "Children swam beside the steps."),
         "east": ("thick with fog", "The bell was rung every quarter hour.")}
NUMBERS = "two three four five six seven eight nine ten eleven twelve".split()


def arrival(rng, ship):
    cargo, master = SHIPS[ship]
    many = rng.choice(NUMBERS)
    return (f"The {ship} came in from {rng.choice(PORTS)} with {many} loads of {cargo}. "
            f"{master} paid the harbour {many} pence and asked for a berth until the next tide.")


def departure(rng, ship):
    cargo, master = SHIPS[ship]
    return (f"The {ship} left for {rng.choice(PORTS)}. {master} took on water and bread, "
            f"and sold what was left of the {cargo} on the quay.")


def day(rng, number, inside):
    wind = rng.choice(list(WINDS))
    sky, remark = WINDS[wind]
    lines = [f"Day {number}. Wind from the {wind}, the sky {sky}."]
    for ship in sorted(SHIPS):
        if ship in inside and rng.random() < 0.5:
            lines.append(departure(rng, ship))
            inside.remove(ship)
        elif ship not in inside and rng.random() < 0.3:
            lines.append(arrival(rng, ship))
            inside.add(ship)
    lines.append(remark)
    lines.append("No ship lay at the quay at night." if not inside else
                 f"At night {', '.join('the ' + s for s in sorted(inside))} lay at the quay.")
    return "\n".join(lines) + "\n"


def main():
    rng, inside = random.Random(1), set()
    print("\n".join(day(rng, number, inside) for number in range(1, 301)), end="")


if __name__ == "__main__":
    main()
