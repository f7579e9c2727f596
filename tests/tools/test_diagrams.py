"""Curves and calibration, against values worked out by hand."""

import xml.etree.ElementTree as ET

from tools.diagrams import compute_curve, compute_reliability, draw_reliability, draw_roc, find_catch_rate
from tools.labelled_mail import Rate


def test_caught_at_a_fixed_rate_of_alarms() -> None:
    wanted = [float(number) for number in range(100)]
    assert find_catch_rate(wanted, [98.5, 99.5, 50.0], 0.0) == Rate(1, 3)
    assert find_catch_rate(wanted, [98.5, 99.5, 50.0], 0.01) == Rate(2, 3)
    assert find_catch_rate(wanted, [98.5, 99.5, 50.0], 1.0) == Rate(3, 3)


def test_a_curve_rises_from_nothing_to_everything() -> None:
    points = compute_curve([1.0, 2.0, 3.0], [2.5, 3.5])
    assert [(point.wanted, point.unwanted) for point in points] == [
        (0, 0), (1 / 3, 0.5), (2 / 3, 1.0), (1.0, 1.0), (1.0, 1.0)
    ]  # fmt: skip


def test_reliability_groups_by_what_was_said() -> None:
    bins = compute_reliability([(0.05, False), (0.07, True), (0.95, True), (1.0, True)])
    assert [(round(each.said, 3), each.seen, each.count) for each in bins] == [(0.06, 0.5, 2), (0.975, 1.0, 2)]


def test_pictures_are_well_formed() -> None:
    points = compute_curve([0.1, 0.2], [0.3])
    for picture in (draw_roc([("a <b>", points)]), draw_reliability(compute_reliability([(0.5, True)]))):
        assert ET.fromstring(picture).tag.endswith("svg")
