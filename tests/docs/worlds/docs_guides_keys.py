"""What the guide of keys takes for granted: customers, web sites, accounts that can be away."""

from pinlater.testing import run_inline

imported, crawled, synced, pushed, sent, outage = [], [], [], [], [], set()


def import_file(customer, name):
    imported.append((customer, name))


def crawl(url):
    crawled.append(url)


def sync(account, number):
    synced.append((account, number))


def push(account, version):
    if account in outage:
        raise ConnectionError("the account is away")
    pushed.append((account, version))


def send_report(customer):
    sent.append(customer)


def afterwards(page, server):
    assert len(imported) == 101
    with run_inline(page["Crawl"], page["SendReport"]) as client:
        handle = client.enqueue(page["Crawl"](url="https://example.com/a"))
        assert handle.status().key == ("example.com", 2, False, None)
        client.enqueue(page["SendReport"](customer="ada"), key="ada")
        client.assert_succeeded()
    assert (crawled, sent) == (["https://example.com/a"], ["ada"])
