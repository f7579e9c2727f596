"""Disc images: every tree is read, and a file has the names of all."""

import base64
import lzma

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.files.opening import open_file

from gatepost.files.archives import disc_image
from gatepost.files.values import UnpackBudget

PAYLOAD = b"the payload that must be found"
# Made with genisoimage from `sub/in.txt` and `A long name.js`, then packed; `udfonly` lost its ISO 9660 descriptors.
SAMPLES: dict[str, str] = {
    "plain": (
        "/Td6WFoAAATm1rRGAgAhARwAAAAQz1jM4NAdAa1dAABv/f//o7f/Rz5IFXI5YVG4kijmo4YH+e7kHoLTL8U6PAFLsX7JiopNL6MN2X+m44wj"
        "EVPgWRjFdYrid/dE790OjkefKuUNdUG7Q609LBi0BT3LYTAYxkCvi609m3OqOKD8A42Qb0xB0ylvfiaBrhWePodQMG4L0zYUK+NHcoJWDT0n"
        "L3noPQEVUILhfb2FufF9MhubxDhmS8F4QHvneyCQuDQlEXmAoJGpY2Fx7Np0Q/GZz6RKasPxb6ztRLHwC7PnEfz6Hbslc8vUGKyg+lXiAdcX"
        "sAojWrudiw6fqqOzk/6kCeXT5TPR2Vb3k5f9lzWAPVDnIHh7OfwcfvsQorzvy44WB7huXI36MVsQAEYsznjlnnciU8XPjpAnQAvSqg2hvX3H"
        "Idao8pglZbBBXrwhOVpYomOrJneyiVXtNInCF2Sqc9nKl7076a/1UfYiHQu56VtI4f/L+eFTj4IufJYw167GjwdCD6CT99XBjBGKKul07X8G"
        "m6iZ/mMrfrd1v8A2RdOtugR9K0W8hIl6DHMFfOZdwVeEJBN0ckQAn94ioYA45pxfnT1baZ7kAAAAAACOS2MWU/ygnwAByQOeoAMARXnYHbHE"
        "Z/sCAAAAAARZWg=="
    ),
    "joliet": (
        "/Td6WFoAAATm1rRGAgAhARwAAAAQz1jM4QgdApRdAABv/f//o7f/Rz5IFXI5YVG4kijmo4YH+e7kHoLTL8U6PAFLsX7JiopNL6MN2X+m44wj"
        "EVPgWRjFdYrid/dE790OjkefKuUNdUG7Q609LBi0BT3LYTAYxkCvjQhOM9Ey+IH8A42Qb0xB0ylviT9lTT1n/WAJ7TA8QixXhbiz3Dvjpaaf"
        "J07HiHmTt60edgT73mAGPzq8vJaeubO/R5WPPqDXuQ4oOmx6cW8xKfNnACpu5vVr1slOu9KmTJHBjipiHKpjj4s56ophD2xuRP3Q6YvF2G/r"
        "P85tUQMt4azRIZJ4hNu3cRCu7jr/BbQIihwYaTmLmYPUTlHuw9qq4v/vzwJtVwq7b5zvVB32TfCCRaDt6qeUfM1JQzwOdBeJaVILD4jII/KC"
        "etWbva0i3E3k1yC4v1stQOJ+Zt9am7lDgp8mvkYI9fGDzfWzrk84hrVoKqcsxeGpI9cwLHt7UabM0JzHFVEUrYZVCh1ejOECHG1uyHCUb6ME"
        "P/ovDH0BFHqQ51XZMc/N+wi5w3t02hksX/KeGx/4FeYfaCO7od/HUB6WBm4DCbtFkM2cKKdEyJs4ERDZ3TYl0JBRt6VrcgU44atfzJ4XaGfh"
        "jrcX5MNQGiIS0hoVvUH7nKrkZp44DevwsrTk6GzcjjAmTD86QMZ+BVwmnkKPLvAMn44F9qlHdONSVA+FByvqoWXf9A+CD13V14pzCHCM3ChI"
        "nAjV2HHCKSvooBD9kH5RV53Xj/uvcvsh6SmXhssmVG/nlDX3bb2Ug6O1On/jjeRrpREYHeCM4XFpWix2PdfXv8NU3Sx+0VP5bTntF+hfv9lr"
        "esLopYpwJqgI66f1q2Sw3ff2pbkWyUkDaR4agLUk+HCDI6Q/Y/0vKEdsAADpiMU6xw2zVgABsAWekAQAu6Of1bHEZ/sCAAAAAARZWg=="
    ),
    "rr": (
        "/Td6WFoAAATm1rRGAgAhARwAAAAQz1jM4NgdAtJdAABv/f//o7f/Rz5IFXI5YVG4kijmo4YH+e7kHoLTL8U6PAFLsX7JiopNL6MN2X+m44wj"
        "EVPgWRjFdYrid/dE790OjkefKuUNdUG7Q609LBi0BT3LYTAYxkCvi97Rm3OqOKD8A42Qb0xB0ylvfiaBrhWePodQMG4L0zYUK+NHcoJWDT0n"
        "L3noPQEVUILhfb2FufF9MhubxDhmS8F4QHvneyCQuDQlEXmAoJGpY2Fx7Np0Q/GZz6RKasPxb6ztRLHwC7PnEfz6Hbslc8vUGKyg+lXiAdcX"
        "sAojWrudiw6fqqOzk/6kCeXT5TPR2Vb3k5f9lzWAPVDnIHh7OfwcfvsQorzvy44WB7huXI36MVsQAEYsznjlnnciU8XPjpAnQAvSqg2hvX3H"
        "Idao8pglZbBBXrwhOVpYomOrJneyiVYXXd7Czo5G7A35IiLLntHRNK110E/Vbdi78Mvb5O011lAJGCWh5qe/A3KbFw2nLv3ORq2pBEeiu5nR"
        "n2AlpzXj0phFwkbH4MybqmYn0+DGmi2fEW6IvzpR8WDMZ6ywOADkSLiw3EhLhyhtDLCOXvD4X63kfE8TcBHn5fwSX4ftKxL5AIznk2ay43eu"
        "DbzYo5H6sEccQ2fXwCnRUdjdjc6skFD37Dr3fvjJ5kLlEUGaB8s4HiG/GaDVvu8jdcnU53yLSr/q5GbFMpzVdd0MlnxLuHO8cl3q+IJGc+iF"
        "5h0sGKr6Y+GCblQPrj8PqmwKVCWw9Zn7Vy6t0QZzsXwBXY3lBnhQdYDLuR32ldb8NgSIbrycdmS5RvfsHB1gNp2gvm/iLaOm7p0qww9otdb+"
        "ZJ4B2NWg+9Ng3Wiqg7pqlDhR6UMkd8txXzxcvU6d9VDYgmmewcq7qmcmyDHDDJ8mD8oXvFqwvLILssVB/Cur7BZEcYAYySQLNUvCnK5CkAuj"
        "gxPmpga9FAw7AM/1vYXpNn13MCok81EAAAAAOGmHMaCUzHoAAe4FnrADABsaF5SxxGf7AgAAAAAEWVo="
    ),
    "udfonly": (
        "/Td6WFoAAATm1rRGAgAhARwAAAAQz1jM7TgcBchdAABv/f//o7f/Rz5IFXI5YVG4kijmo4YH+e7kHoLTL8U6PAFLsX7JiopNL6MN2X+m44wj"
        "EVPgWRjFdYrid/dF3wqDSd0lzkOkZMb7/GykU+G5zXr6KWjY461IEwvX9fIaCngE3NimZVqq5G/BZp9w/urN0M0BqqqQ7k6PI7PyMJns1DrG"
        "NAxOmGotVvCdXLZH3TaZKAM5wW2TBbIeLTI4pt7UzA08BVjrBLiawsG8Gjp44wsV4zRg2peJVdFl3tofn3Zk08rEer+SGkKIxSWcjMh9YQgN"
        "h/Uh8WE/nyU7mwOVj95+P2ISw1cNZnhDDZ2pxDIuEvTtWDvSYIdxb4UEGfr4/cWR30e0LUQ2zfoTTzdRbiJlQ2gzImHqPk6qKeeYpUsInTvN"
        "RJ1S8o/PMpiQpJzqqcm9l4fzt+MdRJzsJbZKnC2Z1mkasAv6ERSxr73BuBaOf3+mZdCfmYpyYu1OBHCy2XukLpSRuf5+MC7Qoy4Y8rgkKmln"
        "7Avkg+ENY19bpi4MYmfZiEYwvvlUp/ugLs1tRqKCEc8BxvXc9sYWPhLpdaxV9jimCtW19e9UBf659YRO7vyU5xg11OE3xErUqzrKmfcs4/7R"
        "R/Nqkt+1q9wapF7K5Vo1uqNQEo4Ip+FoEBxx3K4vR01pD4+1GVpVOeG9oj5WZX5I9NB0VoOcBG7Mvdnoiq2XLf8u65odugzFy5sAYxyHg+Cy"
        "fMRLTSFhpCqMVp/52h4wZCBWDofcM/yaqUC9RXpyGEnL8eWLcYdjzybLIkSn9n4A8uU4fFzFu6Wlrzttewcqvz5Y8wFY2WLiufdJUP4E15gh"
        "mRxLsZNRsXJuDB/usdXXyZJztjEan9hTWp3lcQaEttm3xlANhsoE63vhG6R1PrHob4mUo/ZmoERtklY7LNhV9b+lGjPnz1mR+Elj3jOIRPUQ"
        "5GFuExFEK9vserDHcI+b5RlZT5CauHTxC7axYHq5ndcxTDXNRkO86VdqDbcAb4j2eEkOkgZ/IXzyReqnRTyL/stpTNBRyKAVBSkkQ+sZoTiC"
        "8FseLP7cW2bnjjvZ0Z732b2XvPg0wVxMQM2WZHLF9szXIMJuStvKHUd6Gp9UzzrL1cKn3l9mgrgz5DDW1Hs/Jmq0cCxp1qp7xqB9+0gCcsoV"
        "1BbTe5Io4yb628gsp287ApoarkZfetJ/Adf5H9Om6Px2UYsVfw9e5neJs7Vud2CUN0IdN7oFcQyNCvG8i1RuS4XKk9kCjBpYdq2BVIZMu15I"
        "1T60Lu5pHL2Ma9xK8P3mQ17nN6gmoaHyu5uiM0zICP0L01CfM9sQkDzYVjfPlnlje/pUYfiaL8BBdCOUs128+yipNJJ9vkbjvPo53PteKtQK"
        "HmAvQG78urkIbkU3v/yLdfgO+J7Zdbccna+bpn2lWNTxpgZxGWLhvPVO9O4rIrCeH0j5ZK7z9KOQlXT4HYuI6YCLOu7YUt8q4wW36cc8Wrig"
        "3+0AKi617p7HEGlhxR2uwo2W8YfSRmCsIvMxV6oBcCIgQA7QeQBC00hmjQS3raJy5upwFkMikQNOl91nh0DH7SUMvrouHiY78KJJ5EQ2ddMW"
        "+plIYq8IgxnPdUEPhKmpR9Dkii8wZ2gLE1O4UTmfvTxoOIILkIBb9GOPYQtkMFhFOTqhLTF8PcwKwYrGEFc1Kh+XZUBjdxGidjK+uI/suszQ"
        "08vJtDuq1Y2C3eopz+Plrw2jYG10Xzr7gV8dzdZsG/Jmb0KJ8fZzJNhul9vjjR+kPsx5jgLl163Gb1j+Vsj7yKqB7iNaoasnUdTtwTrwCojd"
        "tW2jy8VNEYr00z+igDpb9uRk8anNnnIbeSATEocMAIXPPCigAGBUsO0a4jt2wdPPy29EjsmCPYgBEky2Uh7c8GigaNUZOqE7WVqQDH/6Sj1Q"
        "IAwKKhV00VC+qh7g2kvVezhaZTlsL7Np0R4VQo1RBJzYdWZodjHkz+himfrHO1785K3betAABjahtnNLWPIAAeQLnfA0AAYFlHixxGf7AgAA"
        "AAAEWVo="
    ),
}


def sample(name: str) -> bytes:
    return lzma.decompress(base64.b64decode(SAMPLES[name]))


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("plain", [("A_LONG_N.JS",), ("SUB/IN.TXT",)]),
        ("joliet", [("A_LONG_N.JS", "A long name.js"), ("SUB/IN.TXT", "sub/in.txt")]),
        ("rr", [("A long name.js",), ("sub/in.txt",)]),
        ("udfonly", [("A long name.js",), ("sub/in.txt",)]),
    ],
)
def test_every_tree_is_read(name: str, names: list[tuple[str, ...]]) -> None:
    outer, *inner = open_file(sample(name))
    assert [file.names for file in inner] == names
    assert [file.content for file in inner] == [b"x", PAYLOAD]
    assert (outer.type, outer.unread) == ("iso", ())


def test_a_folder_that_holds_itself_is_read_once() -> None:
    content = bytearray(sample("plain"))
    root = content[0x8000 + 156 + 2 : 0x8000 + 156 + 6]
    name = content.index(b"\x03SUB")
    content[name - 30 : name - 26] = root
    assert [file.names[0] for file in open_file(bytes(content))[1:]] == ["A_LONG_N.JS"]


def test_a_partition_that_is_not_read_is_said() -> None:
    content = bytearray(sample("udfonly"))
    volume = next(place for place in range(0, len(content), 2048) if content[place : place + 2] == b"\x06\0")
    content[volume + 440] = 2  # a metadata partition
    assert open_file(bytes(content))[0].unread == ("unsupported",)


def test_no_tree_at_all_is_damage() -> None:
    assert open_file(bytes(0x8000) + b"\x01CD001" + bytes(100))[0].unread == ("damaged",)


def test_a_claim_of_gigabytes_gives_what_is_there() -> None:
    content = bytearray(sample("plain"))
    name = content.index(b"A_LONG_N.JS")
    content[name - 23 : name - 19] = b"\xff\xff\xff\x7f"
    budget = UnpackBudget()
    outer, *_ = open_file(bytes(content), budget=budget)
    assert set(outer.unread) <= {"size", "damaged"}
    assert budget.spent <= 2 * len(content)


@settings(max_examples=60)
@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_no_damage_raises(name: str, data: st.DataObject) -> None:
    content = bytearray(sample(name))
    used = [place for place in range(0, len(content), 64) if any(content[place : place + 64])]
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.sampled_from(used)) + data.draw(st.integers(0, 63))
        if place < len(content):
            content[place] = data.draw(st.integers(0, 255))
    budget = UnpackBudget(max_bytes=1 << 20)
    list(disc_image.read_members(bytes(content), budget))
    assert budget.spent <= 1 << 20
