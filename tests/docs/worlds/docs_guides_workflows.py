"""What the guide of workflows takes for granted: functions for its steps."""

from pinlater.testing import FakeContext, run_inline

mails, notes, uploads, resized, covers, charges = [], [], [], [], [], []


def reserve_domain(owner):
    return f"{owner}.shops.example"


def order_certificate(domain):
    return None


def send_mail(user, text):
    mails.append((user, text))


def list_photos(album):
    return ["cat.jpg", "coffee.jpg"]


def resize(photo):
    resized.append(photo)


def has_cover(album):
    return True


def show_cover(album):
    covers.append(album)


async def ask_price(shop):
    return len(shop)


def note_price(price):
    notes.append(price)


def dump_database(database):
    return f"{database}.sql"


def upload(dump):
    uploads.append(dump)
    if len(uploads) < 3:
        raise ConnectionError("not now")


def has_come(user):
    return False


def lock_shop(owner):
    return None


def charge(*what):
    if "flight to rome" in what:
        raise OSError("no money")
    charges.append(what)


def price_of(order):
    return 10


def book_flight(city):
    return f"flight to {city}"


def book_hotel(city):
    notes.append(f"room in {city}")
    return f"room in {city}"


def cancel_flight(flight):
    notes.append(f"no {flight}")


cancel_hotel = cancel_flight


def refund(_):
    raise AssertionError("it was never paid")


def give_up(holiday):
    with run_inline(holiday) as client:
        client.enqueue(holiday(city="rome"))
    assert notes == ["room in rome", "no room in rome", "no flight to rome"]


def read_page(shop, page):
    return [7, 5, 9][page : page + 1]


def watch(prices, server):
    handle = server.client(prices).enqueue(prices(shop="a"))
    assert [outcome.ending for outcome in server.run_worker(prices)] == [*["rescheduled"] * 3, "succeeded"]
    assert b'"lowest":5' in handle.status(include_body=True).body


def run_with_types(travel, rent, charged):
    mails.clear()
    with run_inline(travel, rent, charged) as client:
        client.enqueue(travel(city="rome"))
        client.enqueue(rent(tenant="ada"))
        client.enqueue(charged(order=7))
        client.assert_succeeded()
    assert mails == [("ada", "rome-7 on 04 May"), ("ada", "thank you")]
    assert [(who, len(key)) for who, key in charges[:1]] == [("ada", 36)]
    assert charges[1:] == [(7, 12.0)]
    charged(order=7).run(FakeContext(patches={"vat-2027": False}))
    assert charges[-1] == (7, 10)


def talk(page, server):
    kinds = album, _, post = [page[name] for name in ("PrintAlbum", "Thumbnail", "PublishPost")]
    with run_inline(*kinds) as client:
        assert client.enqueue(album(photos=["a.jpg", "bb.jpg"])).result(timeout=0) == 20
    mails.clear()
    handle = server.client(*kinds).enqueue(post(post=7))
    server.run_worker(*kinds)
    assert handle.send("approval", page["Approval"](by="ada"))
    server.run_worker(*kinds)
    assert handle.result(timeout=10) == "ada"
    assert mails == [("ada", "post 7 is out")]


def afterwards(page, server):
    kinds = [page[name] for name in ("PublishAlbum", "CompareOffers", "Backup", "Close", "Invite")]
    album, compare, backup, close, invite = kinds
    notes.clear()
    watch(page["WatchPrices"], server)
    talk(page, server)
    give_up(page["Holiday"])
    notes.clear()
    run_with_types(page["Travel"], page["CollectRent"], page["Charge"])
    with run_inline(*kinds) as client:
        client.enqueue(album(album=7))
        client.enqueue(compare(shops=["a", "bb"]))
        client.enqueue(backup(database="shop"))
        client.enqueue(close(owner="ada"))
        client.assert_succeeded()
    assert (resized, covers, notes, uploads) == (["cat.jpg", "coffee.jpg"], [7], [1], ["shop.sql"] * 3)
    mails.clear()
    server.client(invite).enqueue(invite(user="bob"))
    server.run_worker(invite)
    assert mails == [("bob", "come in")]
    server.advance(3 * 86400)
    [outcome] = server.run_worker(invite)
    assert outcome.ending == "succeeded"
    assert mails == [("bob", "come in"), ("bob", "do come in")]
