"""A client that shares nothing with ours: the Apache Thrift runtime, and the wire contract typed in by hand.

Structs are dicts from field names to values; a field that is absent is not in the dict.
"""

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TFramedTransport, TMemoryBuffer

_CONTRACT = """
Context           1 source string, 2 requestId string, 100 idempotencyKey binary, 101 isRepeat bool, 102 keepResultMillis i32
Job               1 body binary, 2 priority byte, 3 runAfterTimestampMillis i64, 4 numAttemptsAllowed i32, 5 customStatus string, 100 uniqueKey string, 101 uniqueUntilStarted bool, 102 uniqueForMillis i64, 103 onDuplicate i32, 104 maxDelayMillis i64, 105 key string, 106 maxRunningOfKey i32, 107 keyInOrder bool, 108 parentDescriptor string, 109 parentMessageName string, 110 parentPosition i32, 111 rateOfKey string
EnqueueRequest    1 queueName string, 2 jobs list<Job>
EnqueueResponse   1 jobDescriptors list<string>
AckInfo           1 jobDescriptor string, 2 appendCustomStatus string, 3 retryDelayMillis i64, 100 claimDescriptor string, 101 isFinal bool, 102 result binary, 103 isCancelled bool, 104 className string, 105 runMillis i64
RunStatistics     1 className string, 2 succeeded i64, 3 failed i64, 4 givenUp i64, 5 runBuckets map<i32,i64>, 6 waitBuckets map<i32,i64>
AckRequest        1 queueName string, 2 jobsSucceeded list<AckInfo>, 3 jobsFailed list<AckInfo>, 100 runStatistics list<RunStatistics>
DequeueRequest    1 queueName string, 2 limit i32, 3 jobAckRequest AckRequest, 4 dryRun bool, 5 coverage double, 100 waitMillis i32, 101 claimTimeoutMillis i32, 102 otherQueueNames list<string>
DequeueMetadata   1 attemptsAllowed i32, 2 attemptsRemaining i32, 100 claimDescriptor string, 101 createdAtTimestampMillis i64, 102 runAfterTimestampMillis i64
DequeueResponse   1 jobs map<string,binary>, 2 jobMetadata map<string,DequeueMetadata>, 100 serverTimestampMillis i64
CheckpointRequest 1 jobDescriptor string, 2 newBody binary, 3 moveToPending bool, 4 runAfterTimestampMillis i64, 5 numOfAttemptsAllowed i32, 6 prependCustomStatus string, 100 claimDescriptor string, 101 newBodyBytes binary, 102 waitsFor list<MessageWait>, 103 keeps list<KeptMessage>, 104 drops list<string>
KeptMessage       1 name string, 2 id string, 3 payload binary
MessageWait       1 messageName string, 2 count i32
CheckpointsRequest 1 queueName string, 2 requests list<CheckpointRequest>, 100 tellStale bool
LookupRequest     1 jobDescriptors list<string>, 2 includeBody bool, 100 includeResult bool, 101 waitMillis i32, 102 maxBodyBytes i32
JobInfo           1 jobDescriptor string, 2 jobState i32, 10 attemptsAllowed i32, 3 attemptsRemaining i32, 4 customStatus string, 5 createdAtTimestampMillis i64, 6 runAfterTimestampMillis i64, 7 updatedAtTimestampMillis i64, 8 claimDescriptor string, 9 body binary, 100 uniqueKey string, 101 key string, 102 maxRunningOfKey i32, 103 keyInOrder bool, 104 waitsForKey bool, 105 result binary, 106 isCancelled bool, 107 parentDescriptor string, 108 parentMessageName string, 109 parentPosition i32, 110 waitsFor list<MessageWait>, 111 failureGroup i64, 112 runMillis i64, 113 rateOfKey string
CountRequest      1 queueName string, 2 jobState i32, 3 priority byte, 4 countFutureJobs bool, 5 bodyRegexToMatch string, 100 waitingForKey bool, 101 retrying bool, 102 failureGroup i64
ScanRequest       1 queueName string, 2 jobState i32, 3 priority byte, 4 scanFutureJobs bool, 5 continuation string, 6 limit i32, 7 bodyRegexToMatch string, 100 retrying bool, 101 failureGroup i64, 102 oldestFirst bool
ScanResponse      1 scannedJobs list<JobInfo>, 2 continuation string
RetryRequest      1 queueName string, 2 priority byte, 3 attemptsToAllow i32, 4 runAfterTimestampMillis i64, 5 limit i32, 100 jobDescriptors list<string>
DeleteRequest     1 queueName string, 2 jobState i32, 3 priority byte, 4 bodyRegexToMatch string, 5 limit i32, 100 jobDescriptors list<string>
RunNowRequest     1 queueName string, 2 jobDescriptors list<string>
ScheduleRequest   1 queueName string, 2 jobDescriptors list<string>, 3 runAfterTimestampMillis i64
CancelRequest     1 queueName string, 2 jobDescriptors list<string>, 3 appendCustomStatus string
SendRequest       1 jobDescriptor string, 2 name string, 3 id string, 4 payload binary
Message           1 number i64, 2 id string, 3 kind i32, 4 payload binary
ReadRequest       1 jobDescriptor string, 2 name string, 3 after i64, 4 limit i32
CancelledRequest  1 sinceTimestampMillis i64, 2 waitMillis i32
CancelledJobs     1 jobDescriptors list<string>, 2 serverTimestampMillis i64
ReleaseRequest    1 queueName string, 2 claimSource string
ImportRequest     1 queueName string, 2 jobs list<JobInfo>
QueueSettings     1 isPaused bool, 2 maxJobsPerSecond double, 3 maxRunning i32, 4 isFromFile bool, 5 shards i32, 6 shardsByLoad i32, 7 activeShards list<string>
ChangeRequest     1 queueName string, 2 isPaused bool, 3 maxJobsPerSecond double, 4 maxRunning i32, 5 shards i32
RunningJob        1 jobDescriptor string, 2 startedAtTimestampMillis i64
JobClass          1 className string, 2 queueName string, 3 priority i32, 4 attempts i32, 5 bodySchema string
WorkerProcess     1 pid i32, 2 pool string, 3 queueNames list<string>, 4 startedAtTimestampMillis i64, 5 memoryBytes i64, 6 jobsAtOnce i32, 7 jobsEnded i64, 8 runningJobs list<RunningJob>
UnknownJobs       1 queueName string, 2 className string, 3 timesReturned i64, 4 lastReturnedAtTimestampMillis i64
QueueLoad         1 queueName string, 2 latencyTargetMillis i64, 3 jobsAtOnce i32, 4 jobsRunning i32, 5 windowMillis i64, 6 jobsEnded i64, 7 busyMillis i64
Worker            1 workerId string, 2 host string, 3 pid i32, 4 version string, 5 pythonVersion string, 6 startedAtTimestampMillis i64, 7 isDraining bool, 8 processes list<WorkerProcess>, 9 reportedAtTimestampMillis i64, 10 unknownJobs list<UnknownJobs>, 11 queueLoads list<QueueLoad>, 13 jobClasses list<JobClass>
StatisticsRequest 1 kind i32, 2 resolutionSeconds i32, 3 sinceTimestampMillis i64, 4 untilTimestampMillis i64, 5 queueNames list<string>, 6 name string
Statistics        1 queueName string, 2 name string, 3 startTimestampMillis i64, 4 enqueued i64, 5 started i64, 6 succeeded i64, 7 failed i64, 8 givenUp i64, 9 waitBuckets map<i32,i64>, 10 runBuckets map<i32,i64>
FailureGroupsRequest 1 queueNames list<string>, 2 limit i32
FailureGroup      1 queueName string, 2 groupId i64, 3 className string, 4 error string, 5 example string, 6 firstFailedAtTimestampMillis i64, 7 lastFailedAtTimestampMillis i64, 8 givenUp i32, 9 retrying i32
ReportRequest     1 worker Worker, 2 keepMillis i32
Failure           1 errorCode i32, 2 message string, 100 jobDescriptors list<string>, 101 cancelledDescriptors list<string>
"""  # noqa: E501 - a table

_METHODS = """
createQueue     2 name string                            -> void
deleteQueue     2 name string, 3 password string         -> void
enqueueJobs     2 request EnqueueRequest                 -> EnqueueResponse
dequeueJobs     2 request DequeueRequest                 -> DequeueResponse
ackDequeuedJobs 2 request AckRequest                     -> void
checkpointJobs  2 request CheckpointsRequest             -> void
checkpointAndKeep 2 request CheckpointsRequest           -> void
lookupJobs      2 request LookupRequest                  -> map<string,JobInfo>
getJobCount     2 request CountRequest                   -> i32
getQueueNames                                            -> set<string>
scanJobs        2 request ScanRequest                    -> ScanResponse
retryFailedJobs 2 request RetryRequest                   -> i32
deleteJobs      2 request DeleteRequest                  -> i32
runJobsNow      2 request RunNowRequest                  -> i32
scheduleJobs    2 request ScheduleRequest                -> i32
cancelJobs      2 request CancelRequest                  -> i32
sendMessage     2 request SendRequest                    -> bool
readMessages    2 request ReadRequest                    -> list<Message>
getCancelledJobs 2 request CancelledRequest              -> CancelledJobs
releaseClaims   2 request ReleaseRequest                 -> i32
importJobs      2 request ImportRequest                  -> EnqueueResponse
getQueueSettings                                         -> map<string,QueueSettings>
changeQueueSettings 2 request ChangeRequest              -> void
reportWorker    2 request ReportRequest                  -> void
getWorkers                                               -> list<Worker>
getOldestDueTimestamps 2 queueNames list<string>         -> map<string,i64>
getStatistics   2 request StatisticsRequest              -> list<Statistics>
getFailureGroups 2 request FailureGroupsRequest          -> list<FailureGroup>
keepsResults                                             -> void
"""

_SCALARS = {
    "bool": (TType.BOOL, "Bool"),
    "byte": (TType.BYTE, "Byte"),
    "i32": (TType.I32, "I32"),
    "i64": (TType.I64, "I64"),
    "double": (TType.DOUBLE, "Double"),
    "string": (TType.STRING, "String"),
    "binary": (TType.STRING, "Binary"),
}


def _parse_fields(text):
    parts = [
        part.split()
        for part in text.replace("map<string,", "map<string;").replace("map<i32,", "map<i32;").split(",")
        if part.strip()
    ]
    return {name: (int(number), kind.replace(";", ",")) for number, name, kind in parts}


STRUCTS = {name: _parse_fields(rest) for name, rest in (line.split(None, 1) for line in _CONTRACT.strip().splitlines())}
METHODS = {}
for _line in _METHODS.strip().splitlines():
    _head, _result = _line.split("->")
    _name, _, _rest = _head.partition(" ")
    METHODS[_name] = _result.strip()
    STRUCTS[f"{_name}_args"] = {"context": (1, "Context"), **_parse_fields(_rest)}
    STRUCTS[f"{_name}_result"] = {"e": (1, "Failure")}
    if METHODS[_name] != "void":
        STRUCTS[f"{_name}_result"]["success"] = (0, METHODS[_name])


def _wire_type(kind):
    if kind in _SCALARS:
        return _SCALARS[kind][0]
    container = kind.partition("<")[0]
    return {"list": TType.LIST, "set": TType.SET, "map": TType.MAP}.get(container, TType.STRUCT)


def write(protocol, kind, value):
    """Write a value of a type of the contract."""
    container, _, inner = kind.rstrip(">").partition("<")
    if type(value) is bytes:  # also as a text, as in languages whose texts are bytes
        protocol.writeBinary(value)
    elif kind in _SCALARS:
        getattr(protocol, "write" + _SCALARS[kind][1])(value)
    elif container in {"list", "set"}:
        getattr(protocol, f"write{container.title()}Begin")(_wire_type(inner), len(value))
        for item in value:
            write(protocol, inner, item)
    elif container == "map":
        of_key, of_value = inner.split(",")
        protocol.writeMapBegin(_wire_type(of_key), _wire_type(of_value), len(value))
        for key, item in value.items():
            write(protocol, of_key, key)
            write(protocol, of_value, item)
    else:
        for name, item in value.items():
            number, of_field = STRUCTS[kind][name]
            protocol.writeFieldBegin(name, _wire_type(of_field), number)
            write(protocol, of_field, item)
            protocol.writeFieldEnd()
        protocol.writeFieldStop()


def read(protocol, kind):
    """Read a value of a type of the contract."""
    container, _, inner = kind.rstrip(">").partition("<")
    if kind in _SCALARS:
        return getattr(protocol, "read" + _SCALARS[kind][1])()
    if container in {"list", "set"}:
        _, count = getattr(protocol, f"read{container.title()}Begin")()
        return [read(protocol, inner) for _ in range(count)]
    if container == "map":
        of_key, of_value = inner.split(",")
        _, _, count = protocol.readMapBegin()
        return {read(protocol, of_key): read(protocol, of_value) for _ in range(count)}
    return _read_struct(protocol, STRUCTS[kind])


def _read_struct(protocol, fields):
    by_number = {(number, _wire_type(of_field)): (name, of_field) for name, (number, of_field) in fields.items()}
    found = {}
    while True:
        _, wire_type, number = protocol.readFieldBegin()
        if wire_type == TType.STOP:
            return found
        if (number, wire_type) in by_number:
            name, of_field = by_number[number, wire_type]
            found[name] = read(protocol, of_field)
        else:
            protocol.skip(wire_type)


class DeclaredError(Exception):
    """The answer was the declared exception."""

    def __init__(self, failure):
        super().__init__(failure["message"])
        self.code = failure["errorCode"]
        self.job_descriptors = failure.get("jobDescriptors")
        self.cancelled_descriptors = failure.get("cancelledDescriptors")


def encode_call(method, sequence_id, arguments, *, args_kind=None):
    """Return the payload of a call."""
    memory = TMemoryBuffer()
    _write_call(TBinaryProtocol(memory), method, sequence_id, arguments, args_kind)
    return memory.getvalue()


def _write_call(protocol, method, sequence_id, arguments, args_kind=None):
    protocol.writeMessageBegin(method, TMessageType.CALL, sequence_id)
    write(protocol, args_kind or f"{method}_args", arguments)
    protocol.writeMessageEnd()


def read_answer(protocol, method):
    """Read a reply; return (sequence id, success)."""
    name, kind, sequence_id = protocol.readMessageBegin()
    assert name == method
    if kind == TMessageType.EXCEPTION:
        error = TApplicationException()
        error.read(protocol)
        raise error
    assert kind == TMessageType.REPLY
    result = read(protocol, f"{method}_result" if method in METHODS else "Failure")
    if "e" in result:
        raise DeclaredError(result["e"])
    return sequence_id, result.get("success")


def decode_answer(method, payload):
    return read_answer(TBinaryProtocol(TMemoryBuffer(payload)), method)


class ApacheClient:
    """One connection; calls are ``client.getQueueNames()``, ``client.enqueueJobs(queueName=..., jobs=[...])``."""

    def __init__(self, port, source="apache", timeout_ms=20_000):
        self.socket = TSocket("127.0.0.1", port)
        self.socket.setTimeout(timeout_ms)
        self._transport = TFramedTransport(self.socket)
        self.protocol = TBinaryProtocol(self._transport)
        self._transport.open()
        self._sequence_id = 0
        self._context = {"source": source}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._transport.close()

    def __getattr__(self, method):
        if method not in METHODS:
            raise AttributeError(method)
        return lambda **arguments: self.call(method, **arguments)

    def call(self, method, **arguments):
        """Call with the fields of the request, or, for queue methods, the arguments themselves."""
        if "request" in STRUCTS[f"{method}_args"]:
            arguments = {"request": arguments}
        return self.send_and_read(method, {"context": self._context, **arguments})

    def send(self, method, arguments, *, args_kind=None):
        self._sequence_id += 1
        _write_call(self.protocol, method, self._sequence_id, arguments, args_kind)
        self._transport.flush()
        return self._sequence_id

    def read(self, method):
        """Read an answer; return (sequence id, success)."""
        return read_answer(self.protocol, method)

    def send_and_read(self, method, arguments, *, args_kind=None):
        sent = self.send(method, arguments, args_kind=args_kind)
        number, success = self.read(method)
        assert number == sent
        return success
