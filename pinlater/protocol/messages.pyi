"""The static side of messages.py, where the classes are made from the IDL at import time.

A test holds the two together. A field that may be absent is None when it is.
"""

from types import ModuleType
from typing import Any

CONTINUATION_START: str
CONTINUATION_END: str

PENDING: int
IN_PROGRESS: int
SUCCEEDED: int
FAILED: int
STATE_NAMES: dict[int, str]

idl: ModuleType
METHODS: frozenset[str]

def arguments_of(method: str) -> Any: ...
def result_of(method: str) -> Any: ...

class RequestContext:
    source: str | None
    requestId: str
    idempotencyKey: bytes | None
    isRepeat: bool | None
    keepResultMillis: int | None
    hearsStopping: bool | None
    def __init__(
        self,
        source: str | None = ...,
        requestId: str = ...,
        idempotencyKey: bytes | None = ...,
        isRepeat: bool | None = ...,
        keepResultMillis: int | None = ...,
        hearsStopping: bool | None = ...,
    ) -> None: ...

class PinLaterJob:
    body: bytes | None
    priority: int
    runAfterTimestampMillis: int | None
    numAttemptsAllowed: int
    customStatus: str
    uniqueKey: str | None
    def __init__(
        self,
        body: bytes | None = ...,
        priority: int = ...,
        runAfterTimestampMillis: int | None = ...,
        numAttemptsAllowed: int = ...,
        customStatus: str = ...,
        uniqueKey: str | None = ...,
    ) -> None: ...

class PinLaterEnqueueRequest:
    queueName: str | None
    jobs: list[PinLaterJob] | None
    def __init__(
        self,
        queueName: str | None = ...,
        jobs: list[PinLaterJob] | None = ...,
    ) -> None: ...

class PinLaterEnqueueResponse:
    jobDescriptors: list[str] | None
    def __init__(
        self,
        jobDescriptors: list[str] | None = ...,
    ) -> None: ...

class PinLaterJobAckInfo:
    jobDescriptor: str | None
    appendCustomStatus: str
    retryDelayMillis: int
    claimDescriptor: str | None
    isFinal: bool | None
    def __init__(
        self,
        jobDescriptor: str | None = ...,
        appendCustomStatus: str = ...,
        retryDelayMillis: int = ...,
        claimDescriptor: str | None = ...,
        isFinal: bool | None = ...,
    ) -> None: ...

class PinLaterJobAckRequest:
    queueName: str | None
    jobsSucceeded: list[PinLaterJobAckInfo] | None
    jobsFailed: list[PinLaterJobAckInfo] | None
    def __init__(
        self,
        queueName: str | None = ...,
        jobsSucceeded: list[PinLaterJobAckInfo] | None = ...,
        jobsFailed: list[PinLaterJobAckInfo] | None = ...,
    ) -> None: ...

class PinLaterDequeueRequest:
    queueName: str | None
    limit: int | None
    jobAckRequest: PinLaterJobAckRequest | None
    dryRun: bool
    coverage: float
    waitMillis: int | None
    claimTimeoutMillis: int | None
    otherQueueNames: list[str] | None
    def __init__(
        self,
        queueName: str | None = ...,
        limit: int | None = ...,
        jobAckRequest: PinLaterJobAckRequest | None = ...,
        dryRun: bool = ...,
        coverage: float = ...,
        waitMillis: int | None = ...,
        claimTimeoutMillis: int | None = ...,
        otherQueueNames: list[str] | None = ...,
    ) -> None: ...

class PinLaterDequeueMetadata:
    attemptsAllowed: int | None
    attemptsRemaining: int | None
    claimDescriptor: str | None
    createdAtTimestampMillis: int | None
    runAfterTimestampMillis: int | None
    def __init__(
        self,
        attemptsAllowed: int | None = ...,
        attemptsRemaining: int | None = ...,
        claimDescriptor: str | None = ...,
        createdAtTimestampMillis: int | None = ...,
        runAfterTimestampMillis: int | None = ...,
    ) -> None: ...

class PinLaterDequeueResponse:
    jobs: dict[str, bytes] | None
    jobMetadata: dict[str, PinLaterDequeueMetadata] | None
    serverTimestampMillis: int | None
    def __init__(
        self,
        jobs: dict[str, bytes] | None = ...,
        jobMetadata: dict[str, PinLaterDequeueMetadata] | None = ...,
        serverTimestampMillis: int | None = ...,
    ) -> None: ...

class PinLaterCheckpointJobRequest:
    jobDescriptor: str | None
    newBody: bytes | None
    moveToPending: bool
    runAfterTimestampMillis: int | None
    numOfAttemptsAllowed: int | None
    prependCustomStatus: str | None
    claimDescriptor: str | None
    newBodyBytes: bytes | None
    def __init__(
        self,
        jobDescriptor: str | None = ...,
        newBody: bytes | None = ...,
        moveToPending: bool = ...,
        runAfterTimestampMillis: int | None = ...,
        numOfAttemptsAllowed: int | None = ...,
        prependCustomStatus: str | None = ...,
        claimDescriptor: str | None = ...,
        newBodyBytes: bytes | None = ...,
    ) -> None: ...

class PinLaterCheckpointJobsRequest:
    queueName: str | None
    requests: list[PinLaterCheckpointJobRequest] | None
    tellStale: bool | None
    def __init__(
        self,
        queueName: str | None = ...,
        requests: list[PinLaterCheckpointJobRequest] | None = ...,
        tellStale: bool | None = ...,
    ) -> None: ...

class PinLaterLookupJobRequest:
    jobDescriptors: list[str] | None
    includeBody: bool
    def __init__(
        self,
        jobDescriptors: list[str] | None = ...,
        includeBody: bool = ...,
    ) -> None: ...

class PinLaterJobInfo:
    jobDescriptor: str | None
    jobState: int | None
    attemptsAllowed: int | None
    attemptsRemaining: int | None
    customStatus: str | None
    createdAtTimestampMillis: int | None
    runAfterTimestampMillis: int | None
    updatedAtTimestampMillis: int | None
    claimDescriptor: str | None
    body: bytes | None
    uniqueKey: str | None
    def __init__(
        self,
        jobDescriptor: str | None = ...,
        jobState: int | None = ...,
        attemptsAllowed: int | None = ...,
        attemptsRemaining: int | None = ...,
        customStatus: str | None = ...,
        createdAtTimestampMillis: int | None = ...,
        runAfterTimestampMillis: int | None = ...,
        updatedAtTimestampMillis: int | None = ...,
        claimDescriptor: str | None = ...,
        body: bytes | None = ...,
        uniqueKey: str | None = ...,
    ) -> None: ...

class PinLaterGetJobCountRequest:
    queueName: str | None
    jobState: int | None
    priority: int | None
    countFutureJobs: bool
    bodyRegexToMatch: str | None
    def __init__(
        self,
        queueName: str | None = ...,
        jobState: int | None = ...,
        priority: int | None = ...,
        countFutureJobs: bool = ...,
        bodyRegexToMatch: str | None = ...,
    ) -> None: ...

class PinLaterScanJobsRequest:
    queueName: str | None
    jobState: int | None
    priority: int | None
    scanFutureJobs: bool
    continuation: str
    limit: int
    bodyRegexToMatch: str | None
    def __init__(
        self,
        queueName: str | None = ...,
        jobState: int | None = ...,
        priority: int | None = ...,
        scanFutureJobs: bool = ...,
        continuation: str = ...,
        limit: int = ...,
        bodyRegexToMatch: str | None = ...,
    ) -> None: ...

class PinLaterScanJobsResponse:
    scannedJobs: list[PinLaterJobInfo] | None
    continuation: str
    def __init__(
        self,
        scannedJobs: list[PinLaterJobInfo] | None = ...,
        continuation: str = ...,
    ) -> None: ...

class PinLaterRetryFailedJobsRequest:
    queueName: str | None
    priority: int
    attemptsToAllow: int
    runAfterTimestampMillis: int | None
    limit: int
    jobDescriptors: list[str] | None
    def __init__(
        self,
        queueName: str | None = ...,
        priority: int = ...,
        attemptsToAllow: int = ...,
        runAfterTimestampMillis: int | None = ...,
        limit: int = ...,
        jobDescriptors: list[str] | None = ...,
    ) -> None: ...

class PinLaterDeleteJobsRequest:
    queueName: str | None
    jobState: int | None
    priority: int
    bodyRegexToMatch: str | None
    limit: int
    jobDescriptors: list[str] | None
    def __init__(
        self,
        queueName: str | None = ...,
        jobState: int | None = ...,
        priority: int = ...,
        bodyRegexToMatch: str | None = ...,
        limit: int = ...,
        jobDescriptors: list[str] | None = ...,
    ) -> None: ...

class PinLaterRunJobsNowRequest:
    queueName: str | None
    jobDescriptors: list[str] | None
    def __init__(
        self,
        queueName: str | None = ...,
        jobDescriptors: list[str] | None = ...,
    ) -> None: ...

class PinLaterReleaseClaimsRequest:
    queueName: str | None
    claimSource: str | None
    def __init__(
        self,
        queueName: str | None = ...,
        claimSource: str | None = ...,
    ) -> None: ...

class PinLaterImportJobsRequest:
    queueName: str | None
    jobs: list[PinLaterJobInfo] | None
    def __init__(
        self,
        queueName: str | None = ...,
        jobs: list[PinLaterJobInfo] | None = ...,
    ) -> None: ...

class PinLaterQueueSettings:
    isPaused: bool
    maxJobsPerSecond: float | None
    maxRunning: int | None
    isFromFile: bool
    def __init__(
        self,
        isPaused: bool = ...,
        maxJobsPerSecond: float | None = ...,
        maxRunning: int | None = ...,
        isFromFile: bool = ...,
    ) -> None: ...

class PinLaterChangeQueueSettingsRequest:
    queueName: str | None
    isPaused: bool | None
    maxJobsPerSecond: float | None
    maxRunning: int | None
    def __init__(
        self,
        queueName: str | None = ...,
        isPaused: bool | None = ...,
        maxJobsPerSecond: float | None = ...,
        maxRunning: int | None = ...,
    ) -> None: ...

class PinLaterRunningJob:
    jobDescriptor: str | None
    startedAtTimestampMillis: int | None
    def __init__(
        self,
        jobDescriptor: str | None = ...,
        startedAtTimestampMillis: int | None = ...,
    ) -> None: ...

class PinLaterWorkerProcess:
    pid: int | None
    pool: str | None
    queueNames: list[str] | None
    startedAtTimestampMillis: int | None
    memoryBytes: int | None
    jobsAtOnce: int | None
    jobsEnded: int | None
    runningJobs: list[PinLaterRunningJob] | None
    def __init__(
        self,
        pid: int | None = ...,
        pool: str | None = ...,
        queueNames: list[str] | None = ...,
        startedAtTimestampMillis: int | None = ...,
        memoryBytes: int | None = ...,
        jobsAtOnce: int | None = ...,
        jobsEnded: int | None = ...,
        runningJobs: list[PinLaterRunningJob] | None = ...,
    ) -> None: ...

class PinLaterUnknownJobs:
    queueName: str | None
    className: str | None
    timesReturned: int | None
    lastReturnedAtTimestampMillis: int | None
    def __init__(
        self,
        queueName: str | None = ...,
        className: str | None = ...,
        timesReturned: int | None = ...,
        lastReturnedAtTimestampMillis: int | None = ...,
    ) -> None: ...

class PinLaterWorker:
    workerId: str | None
    host: str | None
    pid: int | None
    version: str | None
    pythonVersion: str | None
    startedAtTimestampMillis: int | None
    isDraining: bool | None
    processes: list[PinLaterWorkerProcess] | None
    reportedAtTimestampMillis: int | None
    unknownJobs: list[PinLaterUnknownJobs] | None
    def __init__(
        self,
        workerId: str | None = ...,
        host: str | None = ...,
        pid: int | None = ...,
        version: str | None = ...,
        pythonVersion: str | None = ...,
        startedAtTimestampMillis: int | None = ...,
        isDraining: bool | None = ...,
        processes: list[PinLaterWorkerProcess] | None = ...,
        reportedAtTimestampMillis: int | None = ...,
        unknownJobs: list[PinLaterUnknownJobs] | None = ...,
    ) -> None: ...

class PinLaterReportWorkerRequest:
    worker: PinLaterWorker | None
    keepMillis: int | None
    def __init__(
        self,
        worker: PinLaterWorker | None = ...,
        keepMillis: int | None = ...,
    ) -> None: ...

class PinLaterException(Exception):
    errorCode: int | None
    message: str | None
    jobDescriptors: list[str] | None
    def __init__(
        self,
        errorCode: int | None = ...,
        message: str | None = ...,
        jobDescriptors: list[str] | None = ...,
    ) -> None: ...
