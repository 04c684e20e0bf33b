"""The structs of the wire contract, made from ``pinlater.thrift`` when this module is imported.

``messages.pyi`` beside this file tells type checkers and editors what they look like.
"""

from pathlib import Path

import thriftpy2

idl = thriftpy2.load(str(Path(__file__).with_name("pinlater.thrift")), module_name="pinlater_thrift")

METHODS = frozenset(idl.PinLater.thrift_services)

CONTINUATION_START = idl.CONTINUATION_START
CONTINUATION_END = idl.CONTINUATION_END

STATE_NAMES = dict(idl.PinLaterJobState._VALUES_TO_NAMES)  # noqa: SLF001 - the only public way is by name
PENDING = idl.PinLaterJobState.PENDING
IN_PROGRESS = idl.PinLaterJobState.IN_PROGRESS
SUCCEEDED = idl.PinLaterJobState.SUCCEEDED
FAILED = idl.PinLaterJobState.FAILED

RequestContext = idl.RequestContext
PinLaterJob = idl.PinLaterJob
PinLaterEnqueueRequest = idl.PinLaterEnqueueRequest
PinLaterEnqueueResponse = idl.PinLaterEnqueueResponse
PinLaterJobAckInfo = idl.PinLaterJobAckInfo
PinLaterJobAckRequest = idl.PinLaterJobAckRequest
PinLaterDequeueRequest = idl.PinLaterDequeueRequest
PinLaterDequeueMetadata = idl.PinLaterDequeueMetadata
PinLaterDequeueResponse = idl.PinLaterDequeueResponse
PinLaterCheckpointJobRequest = idl.PinLaterCheckpointJobRequest
PinLaterCheckpointJobsRequest = idl.PinLaterCheckpointJobsRequest
PinLaterLookupJobRequest = idl.PinLaterLookupJobRequest
PinLaterJobInfo = idl.PinLaterJobInfo
PinLaterGetJobCountRequest = idl.PinLaterGetJobCountRequest
PinLaterScanJobsRequest = idl.PinLaterScanJobsRequest
PinLaterScanJobsResponse = idl.PinLaterScanJobsResponse
PinLaterRetryFailedJobsRequest = idl.PinLaterRetryFailedJobsRequest
PinLaterDeleteJobsRequest = idl.PinLaterDeleteJobsRequest
PinLaterRunJobsNowRequest = idl.PinLaterRunJobsNowRequest
PinLaterReleaseClaimsRequest = idl.PinLaterReleaseClaimsRequest
PinLaterImportJobsRequest = idl.PinLaterImportJobsRequest
PinLaterQueueSettings = idl.PinLaterQueueSettings
PinLaterChangeQueueSettingsRequest = idl.PinLaterChangeQueueSettingsRequest
PinLaterRunningJob = idl.PinLaterRunningJob
PinLaterWorkerProcess = idl.PinLaterWorkerProcess
PinLaterUnknownJobs = idl.PinLaterUnknownJobs
PinLaterWorker = idl.PinLaterWorker
PinLaterReportWorkerRequest = idl.PinLaterReportWorkerRequest
PinLaterException = idl.PinLaterException

_ARGUMENTS = {method: getattr(idl.PinLater, method + "_args") for method in METHODS}
_RESULTS = {method: getattr(idl.PinLater, method + "_result") for method in METHODS}


def arguments_of(method):
    """Return the class of a method's argument struct."""
    return _ARGUMENTS[method]


def result_of(method):
    """Return the class of a method's result struct: field 0 is the success, field 1 the declared exception."""
    return _RESULTS[method]
