"""Thresholds that the server's settings set."""

import dataclasses

import pytest

from pinlater.server.config.settings import Settings, warning_thresholds
from pinlater.triage.readings import ServerReading
from pinlater.triage.thresholds import SETTINGS, Thresholds, configured
from tests.unit.triage.readings import kinds, process, readings, worker


def test_the_defaults_of_the_settings_are_those_of_the_rules():
    assert configured(warning_thresholds(Settings())) == configured({}) == Thresholds()


def test_every_setting_sets_a_threshold():
    assert warning_thresholds(Settings()).keys() == SETTINGS.keys()
    for key, field in SETTINGS.items():
        assert getattr(configured({key: 0.123}), field) == pytest.approx(0.123), key


def test_what_is_critical_grows_along():
    chosen = configured({"WARN_RETRYING_JOBS": 500, "WARN_STORE_SECONDS": 2, "WARN_FAILED_SHARE": 0.9})
    assert (chosen.retrying_critical_jobs, chosen.store_stalled_seconds) == (5000, 12)
    assert chosen.failed_critical_share == pytest.approx(0.9)


def test_the_diagnosis_uses_what_the_server_tells():
    settings = warning_thresholds(dataclasses.replace(Settings(), warn_wait_seconds=30.0))
    looked_at = readings(waits={"email": 60}, workers=[worker(process())])
    assert kinds(looked_at) == []
    assert kinds(dataclasses.replace(looked_at, server=ServerReading(thresholds=settings))) == ["backlog"]
