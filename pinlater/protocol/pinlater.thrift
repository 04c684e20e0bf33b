/*
 * The PinLater service: jobs go in (enqueue), are handed out (dequeue) and settled (ack).
 *
 * Ids below 100 are the original contract and never change. Ids from 100 up are additions of this
 * implementation: all optional, so a client of the original never notices and a server of the original
 * skips them. `string` and `binary` are the same on the wire; checkpoint.newBody is declared binary here
 * so that any bytes survive.
 */
namespace py thrift_libs
namespace java com.pinterest.pinlater.thrift
namespace cpp pinterest.pinlater

const string CONTINUATION_START = "0"
const string CONTINUATION_END = "-1"

enum ErrorCode {
  CONTINUATION_INVALID = 400,
  PASSWORD_INVALID = 403,
  QUEUE_NAME_INVALID = 410,
  QUEUE_NAME_TOO_LONG = 411,
  QUEUE_NOT_FOUND = 413,
  PRIORITY_NOT_SUPPORTED = 416,
  DEQUEUE_RATE_LIMITED = 429,
  ENQUEUE_REJECTED = 430,
  // Addition: only in answer to a checkpoint with tellStale.
  STALE_CLAIMS = 440,
  UNKNOWN = 500,
  NO_HEALTHY_SHARDS = 501,
  SHARD_CONNECTION_FAILED = 502,
}

enum PinLaterJobState {
  PENDING = 0,
  IN_PROGRESS = 1,
  SUCCEEDED = 2,
  FAILED = 3,
}

struct RequestContext {
  // Who calls, by habit service:host. Part of the claim descriptor; checkpoints without one are matched by it.
  1: required string source,
  // For logs only.
  2: optional string requestId = "",
  // Idempotency key of an enqueueJobs, importJobs, retryFailedJobs, runJobsNow, scheduleJobs or deleteJobs: 16 bytes that no other call
  // has, best with the time first (UUID version 7). The store keeps the result under it for a while; the same call finds it.
  100: optional binary idempotencyKey,
  // The call with this key may have been carried out before: it was sent already, and its answer did not come.
  101: optional bool isRepeat,
  // For how long its result is kept, at most a day; absent = as the server is set up.
  102: optional i32 keepResultMillis,
  // The client wants to be told when a server that stops closes the connection: by a message "stopping" (ONEWAY, sequence
  // id 0, an empty struct) after its last reply. Calls without a reply by then were not carried out and will not be.
  103: optional bool hearsStopping,
}

struct PinLaterJob {
  1: required binary body,
  // 1 is served first.
  2: optional byte priority = 1,
  // Epoch milliseconds; absent = now.
  3: optional i64 runAfterTimestampMillis,
  // The first attempt included.
  4: optional i32 numAttemptsAllowed = 2,
  5: optional string customStatus = "",
  // At most 200 characters. While a job of the queue with this key is PENDING or IN_PROGRESS, nothing is stored,
  // and the answer has the descriptor of that one. A job that finishes has no key any more.
  100: optional string uniqueKey,
  // Store the job also while one with its key runs, or waits for another attempt: once claimed, a job gives up its key.
  101: optional bool uniqueUntilStarted,
  // The key stays taken for so long from now, even if the job has finished by then; at most 366 days. Enqueues under the
  // key are answered with the descriptor of this job until then. Deleted before it finished, it leaves the key.
  102: optional i64 uniqueForMillis,
  // What becomes of the job with the key, if it was never claimed: 0 (or absent) it stays; 1 it gets body, attempts and
  // status of this one; 2 also its time, if that is not past. Its descriptor, priority and age stay.
  103: optional i32 onDuplicate,
  // With onDuplicate = 2: so long after the waiting job was enqueued it is due at the latest.
  104: optional i64 maxDelayMillis,
  // A key that jobs of the queue share, such as a customer; at most 200 characters. Jobs of several keys take turns.
  105: optional string key,
  // At most so many jobs of the key run at once; 1 or more. The others wait, as PENDING.
  106: optional i32 maxRunningOfKey,
  // The jobs of the key run one after the other, in the order of their enqueues, also when one is retried.
  107: optional bool keyInOrder,
  // The job that waits for the end of this one, its parent, and gets a message then. While it is not there, has
  // finished or is asked to stop, this job is refused. With it come the two that follow.
  108: optional string parentDescriptor,
  // Name of the message, 1 to 200 characters.
  109: optional string parentMessageName,
  // The message's id: which of the jobs with this name it is, from 0.
  110: optional i32 parentPosition,
  // At most so many jobs of the key are started in a time: "10/s", "100/m", "1000/h" or "5/d". The newest rate of a key
  // counts; without one, that of the key stays. The others wait, as PENDING.
  111: optional string rateOfKey,
}

struct PinLaterEnqueueRequest {
  1: required string queueName,
  2: required list<PinLaterJob> jobs,
}

struct PinLaterEnqueueResponse {
  // In the order of the request's jobs.
  1: required list<string> jobDescriptors,
}

struct PinLaterJobAckInfo {
  1: required string jobDescriptor,
  2: optional string appendCustomStatus = "",
  // Of a failure that leads to a retry.
  3: optional i64 retryDelayMillis = 0,
  // Fencing: when given, it must be the job's present claim, or the ack changes nothing.
  100: optional string claimDescriptor,
  // Of a failure: FAILED now, whatever attempts remain.
  101: optional bool isFinal,
  // Of a success: what the job returned; kept with the job, and sent to its parent.
  102: optional binary result,
  // Of a failure: the job was cancelled; FAILED now, with that mark.
  103: optional bool isCancelled,
  // Of a failure: the job's class, by which failures are grouped.
  104: optional string className,
  // Of a success: how long the attempt ran; kept with the job. Workers leave out times below 50 ms.
  105: optional i64 runMillis,
}

// Addition: what became of attempts of a job class since its worker process last told. Buckets: see PinLaterStatistics.
struct PinLaterRunStatistics {
  // 1 to 200 characters.
  1: required string className,
  2: optional i64 succeeded,
  3: optional i64 failed,
  // Jobs that failed for good.
  4: optional i64 givenUp,
  // Bucket -> how many attempts ran so long.
  5: optional map<i32, i64> runBuckets,
  // Bucket -> how many jobs waited so long; some of them are enough.
  6: optional map<i32, i64> waitBuckets,
}

struct PinLaterJobAckRequest {
  1: required string queueName,
  2: optional list<PinLaterJobAckInfo> jobsSucceeded,
  3: optional list<PinLaterJobAckInfo> jobsFailed,
  // Sent every few seconds, also without any ack. What is invalid of them is left out, and the acks count all the same.
  100: optional list<PinLaterRunStatistics> runStatistics,
}

struct PinLaterDequeueRequest {
  1: required string queueName,
  2: required i32 limit,
  // Acks that ride along; carried out even when the dequeue is refused.
  3: optional PinLaterJobAckRequest jobAckRequest,
  // Look, do not claim.
  4: optional bool dryRun = false,
  // Share of the shards to visit.
  5: optional double coverage = 1.0,
  // Long poll: without a job, the answer may wait this long. Another request on the same connection ends it.
  100: optional i32 waitMillis,
  // Lease of these claims: without ack or checkpoint for this long, the job is given to somebody else.
  101: optional i32 claimTimeoutMillis,
  // Further queues to take jobs from when queueName has none, in this order; their names stand in the descriptors.
  102: optional list<string> otherQueueNames,
}

struct PinLaterDequeueMetadata {
  1: optional i32 attemptsAllowed,
  2: optional i32 attemptsRemaining,
  // The claim's token; send it back with acks and checkpoints.
  100: optional string claimDescriptor,
  101: optional i64 createdAtTimestampMillis,
  // When the job became due.
  102: optional i64 runAfterTimestampMillis,
}

struct PinLaterDequeueResponse {
  // Descriptor -> body, in the order of dequeueing. Both maps are absent when there is no job.
  1: optional map<string, binary> jobs,
  2: optional map<string, PinLaterDequeueMetadata> jobMetadata,
  // The time by which the server judges what is due, epoch milliseconds.
  100: optional i64 serverTimestampMillis,
}

// Addition: a sleeping job is due when so many messages of a name have arrived for it.
struct PinLaterMessageWait {
  1: required string messageName,
  // All that ever came, those included that it has read.
  2: required i32 count,
}

// Addition: a message of a job to its later attempts. Name and id: 1 to 200 characters. A second one of both is dropped.
struct PinLaterKeptMessage {
  1: required string name,
  2: required string id,
  3: required binary payload,
}

struct PinLaterCheckpointJobRequest {
  1: required string jobDescriptor,
  2: optional binary newBody,
  // Give the job back, no attempt spent.
  3: optional bool moveToPending = false,
  // Epoch milliseconds; absent = as it was, if there is a claimDescriptor, else now.
  4: optional i64 runAfterTimestampMillis,
  // Sets both allowed and remaining.
  5: optional i32 numOfAttemptsAllowed,
  6: optional string prependCustomStatus,
  // Fencing: when given, it must be the job's present claim; otherwise the caller's source must be the claim's.
  100: optional string claimDescriptor,
  // Wins over newBody; for clients whose IDL says string there.
  101: optional binary newBodyBytes,
  // With moveToPending: due as soon as one of these is fulfilled, also if that was before; until it is claimed again.
  102: optional list<PinLaterMessageWait> waitsFor,
  // Stored with the job if it is held; readMessages returns them. At most as many bytes as a body may have.
  103: optional list<PinLaterKeptMessage> keeps,
  // Names of messages that the job needs no more; up to 10,000 of each are deleted, if it is held.
  104: optional list<string> drops,
}

struct PinLaterCheckpointJobsRequest {
  1: required string queueName,
  2: required list<PinLaterCheckpointJobRequest> requests,
  // Answer with STALE_CLAIMS if a job that is not given back is no longer held as its request says: it was left alone.
  // The other requests were carried out. So it is answered if a job that is held is asked to stop.
  100: optional bool tellStale,
}

struct PinLaterLookupJobRequest {
  1: required list<string> jobDescriptors,
  2: optional bool includeBody = false,
  100: optional bool includeResult,
  // The answer may wait so long until all jobs have finished, or are gone. Another request on the connection ends that.
  101: optional i32 waitMillis,
  // Longer bodies are cut to so many bytes: enough for a list to show what the jobs are. At least 1; unset: whole bodies.
  102: optional i32 maxBodyBytes,
}

struct PinLaterJobInfo {
  1: required string jobDescriptor,
  2: required PinLaterJobState jobState,
  10: required i32 attemptsAllowed,
  3: required i32 attemptsRemaining,
  4: required string customStatus,
  5: required i64 createdAtTimestampMillis,
  6: optional i64 runAfterTimestampMillis,
  7: optional i64 updatedAtTimestampMillis,
  8: optional string claimDescriptor,
  9: optional binary body,
  // Of a job that is not finished; see PinLaterJob.
  100: optional string uniqueKey,
  // See PinLaterJob.
  101: optional string key,
  102: optional i32 maxRunningOfKey,
  103: optional bool keyInOrder,
  // It is PENDING, and waits until other jobs of its key have run.
  104: optional bool waitsForKey,
  // Of a SUCCEEDED job, where asked for; absent if it returned nothing.
  105: optional binary result,
  // FAILED: it was cancelled. IN_PROGRESS: it is asked to stop.
  106: optional bool isCancelled,
  // Of PinLaterJob, like the two that follow.
  107: optional string parentDescriptor,
  108: optional string parentMessageName,
  109: optional i32 parentPosition,
  // It is PENDING, and due earlier if one of these is fulfilled.
  110: optional list<PinLaterMessageWait> waitsFor,
  // Its last attempt failed: the group of that failure. See PinLaterFailureGroup.
  111: optional i64 failureGroup,
  // SUCCEEDED: how long its last attempt ran; absent if that was short, or was not told.
  112: optional i64 runMillis,
  // See PinLaterJob; it was enqueued with this.
  113: optional string rateOfKey,
}

struct PinLaterGetJobCountRequest {
  1: required string queueName,
  2: required PinLaterJobState jobState,
  // Absent = all levels.
  3: optional byte priority,
  4: optional bool countFutureJobs = false,
  5: optional string bodyRegexToMatch,
  // Of PENDING, only those that wait for others of their key; they are among the future jobs, too.
  100: optional bool waitingForKey,
  // Of PENDING: true = only those whose last attempt failed, due or not; false = none of those.
  101: optional bool retrying,
  // Of PENDING or FAILED, only those of this failure group, due or not; without a priority.
  102: optional i64 failureGroup,
}

struct PinLaterScanJobsRequest {
  1: required string queueName,
  2: required PinLaterJobState jobState,
  // Absent = all levels.
  3: optional byte priority,
  4: optional bool scanFutureJobs = false,
  5: optional string continuation = CONTINUATION_START,
  6: optional i32 limit = 100,
  7: optional string bodyRegexToMatch,
  // As for a count.
  100: optional bool retrying,
  101: optional i64 failureGroup,
  // The earliest due first; without it, the latest.
  102: optional bool oldestFirst,
  // Of PENDING or IN_PROGRESS: only those with this key, shared or unique, due or not; without the other filters.
  103: optional string key,
}

struct PinLaterScanJobsResponse {
  1: required list<PinLaterJobInfo> scannedJobs,
  2: optional string continuation = CONTINUATION_END,
  // Of a search of bodies: how many it has looked at. It ends after a while, maybe with no job, and goes on from there.
  100: optional i64 lookedAt,
}

struct PinLaterRetryFailedJobsRequest {
  1: required string queueName,
  2: optional byte priority = 1,
  3: optional i32 attemptsToAllow = 1,
  4: optional i64 runAfterTimestampMillis,
  5: optional i32 limit = 1000,
  // When given: just these, as far as they are FAILED, whatever their priority and the limit.
  100: optional list<string> jobDescriptors,
}

struct PinLaterDeleteJobsRequest {
  1: required string queueName,
  2: required PinLaterJobState jobState,
  3: optional byte priority = 1,
  4: optional string bodyRegexToMatch,
  5: optional i32 limit = 1000,
  // When given: just these, as far as they are in jobState, whatever their priority, the pattern and the limit.
  100: optional list<string> jobDescriptors,
}

// Addition: these jobs, as far as they are PENDING and not due yet, become due now; nothing else of them changes.
struct PinLaterRunJobsNowRequest {
  1: required string queueName,
  2: required list<string> jobDescriptors,
}

// Addition: these jobs, as far as they are PENDING, become due at this time, earlier or later; nothing else changes.
struct PinLaterScheduleJobsRequest {
  1: required string queueName,
  2: required list<string> jobDescriptors,
  3: required i64 runAfterTimestampMillis,
}

// Addition: these jobs need not run any more. PENDING ones are FAILED at once, marked as cancelled. Those that are
// IN_PROGRESS, or have something to undo, are asked to stop: they can still succeed, but whatever else ends their claim
// makes them FAILED, too, once all is undone. So it goes for their children, the jobs whose parent they are, and for theirs.
struct PinLaterCancelJobsRequest {
  1: required string queueName,
  2: required list<string> jobDescriptors,
  // Appended to their custom status.
  3: optional string appendCustomStatus,
}

// Addition: a message for a job that has not finished. It is kept with the job.
struct PinLaterSendMessageRequest {
  1: required string jobDescriptor,
  // 1 to 200 characters.
  2: required string name,
  // A second message of the same name and id is dropped; 1 to 200 characters.
  3: required string id,
  4: required binary payload,
}

// Addition: what a message says.
enum PinLaterMessageKind {
  // It was sent by a call.
  EVENT = 0,
  // A child has succeeded; the payload is its result, empty if it returned nothing.
  SUCCEEDED = 1,
  // A child has failed for good; the payload is the end of its custom status.
  FAILED = 2,
  CANCELLED = 3,
  // A child was deleted before it had finished.
  DELETED = 4,
}

// Addition: a message as its job reads it.
struct PinLaterMessage {
  // From 1, in the order of arrival among those of one name.
  1: required i64 number,
  2: required string id,
  3: required PinLaterMessageKind kind,
  4: required binary payload,
}

// Addition: messages of one name, in the order of arrival; at most so many as fit into the answer, but at least one.
struct PinLaterReadMessagesRequest {
  1: required string jobDescriptor,
  2: required string name,
  // Those with a larger number.
  3: optional i64 after = 0,
  4: optional i32 limit = 1000,
}

// Addition: asks which jobs have been asked to stop of late.
struct PinLaterCancelledJobsRequest {
  // The time of the last answer; 0 at first.
  1: required i64 sinceTimestampMillis,
  // The answer may wait so long until there is one. Another request on the same connection ends the wait.
  2: optional i32 waitMillis,
}

struct PinLaterCancelledJobs {
  // Asked to stop while they were IN_PROGRESS; the server forgets them after a minute or so.
  1: required list<string> jobDescriptors,
  2: required i64 serverTimestampMillis,
}

// Addition: gives back, no attempt spent, every claim that one source still holds.
struct PinLaterReleaseClaimsRequest {
  1: required string queueName,
  // RequestContext.source of the dequeues, matched exactly.
  2: required string claimSource,
}

// Addition: jobs of another store, as a scan and a lookup there described them.
struct PinLaterImportJobsRequest {
  1: required string queueName,
  // With bodies. Of the descriptors only the priority counts; claimed jobs become PENDING, no attempt spent.
  2: required list<PinLaterJobInfo> jobs,
}

// Addition: what holds a queue's jobs back and where new ones go, on all servers of a store.
struct PinLaterQueueSettings {
  1: optional bool isPaused = false,
  // Of all servers together; absent = no limit.
  2: optional double maxJobsPerSecond,
  // Jobs that are claimed at once; absent = no limit.
  3: optional i32 maxRunning,
  // The server's file of rate limits names the queue, and wins over isPaused and maxJobsPerSecond.
  4: optional bool isFromFile = false,
  // Shards that new jobs go to, those with a key aside; -1 = as many as the load needs, absent = all.
  5: optional i32 shards,
  // If shards is -1: how many that is; absent = not known yet.
  6: optional i32 shardsByLoad,
  // The names of these shards; absent = all.
  7: optional list<string> activeShards,
}

// Addition. What is absent stays as it is; a limit of 0 takes the limit away.
struct PinLaterChangeQueueSettingsRequest {
  1: required string queueName,
  2: optional bool isPaused,
  3: optional double maxJobsPerSecond,
  4: optional i32 maxRunning,
  5: optional i32 shards,
}

// Addition: a job that a worker says it runs.
struct PinLaterRunningJob {
  1: required string jobDescriptor,
  2: required i64 startedAtTimestampMillis,
}

// Addition: a job process, as its worker tells of it; times are of the worker's clock.
struct PinLaterWorkerProcess {
  1: required i32 pid,
  2: optional string pool,
  // That it takes jobs from.
  3: optional list<string> queueNames,
  4: optional i64 startedAtTimestampMillis,
  // Resident.
  5: optional i64 memoryBytes,
  // How many jobs it can run at the same time.
  6: optional i32 jobsAtOnce,
  // Since it started, whatever their outcome.
  7: optional i64 jobsEnded,
  8: optional list<PinLaterRunningJob> runningJobs,
  // Resident, without what it has gained since its first job had ended, as far as it goes on gaining that.
  9: optional i64 memoryAtStartBytes,
}

// Addition: jobs that a worker has given back of late, since it knows no class for them or cannot read their bodies.
struct PinLaterUnknownJobs {
  1: required string queueName,
  // "(unreadable)" where the body names no class.
  2: required string className,
  // How often it gave one back; the same job comes again and again.
  3: optional i64 timesReturned,
  4: optional i64 lastReturnedAtTimestampMillis,
}

// Addition: a job class that a worker knows.
struct PinLaterJobClass {
  1: required string className,
  // That its jobs are enqueued to by default.
  2: required string queueName,
  3: optional i32 priority,
  4: optional i32 attempts,
  // JSON schema of its bodies.
  5: optional string bodySchema,
}

// Addition: what a worker has run of late of a queue whose job classes have a latency target.
struct PinLaterQueueLoad {
  1: required string queueName,
  // Within which jobs that are due should start.
  2: required i64 latencyTargetMillis,
  // How many of its jobs the worker can run at the same time, and runs now.
  3: optional i32 jobsAtOnce,
  4: optional i32 jobsRunning,
  // The time that the following fields are about, up to now.
  5: optional i64 windowMillis,
  6: optional i64 jobsEnded,
  // How long jobs ran in that time, those that run at the same time added up.
  7: optional i64 busyMillis,
}

// Addition: a worker, that is one supervisor with its job processes, as it tells of itself.
struct PinLaterWorker {
  // Tells it from all others, also from those before it on the same host. At most 200 characters.
  1: required string workerId,
  2: required string host,
  3: optional i32 pid,
  4: optional string version,
  5: optional string pythonVersion,
  6: optional i64 startedAtTimestampMillis,
  // It takes no more jobs, and ends when those that run have ended.
  7: optional bool isDraining,
  8: optional list<PinLaterWorkerProcess> processes,
  // Of an answer: set by the server.
  9: optional i64 reportedAtTimestampMillis,
  10: optional list<PinLaterUnknownJobs> unknownJobs,
  11: optional list<PinLaterQueueLoad> queueLoads,
  // By the worker's clock; beside reportedAtTimestampMillis it says how far that clock is off.
  12: optional i64 sentAtTimestampMillis,
  // As far as 16 KB hold them.
  13: optional list<PinLaterJobClass> jobClasses,
  // Of an answer: when its connection ended without a word, by the store's clock; sentAtTimestampMillis is absent then.
  14: optional i64 lostAtTimestampMillis,
}

// Addition: asks for the failure groups of some queues.
struct PinLaterFailureGroupsRequest {
  // Absent or none = all queues.
  1: optional list<string> queueNames,
  // At most so many groups, those with the most jobs.
  2: optional i32 limit = 200,
}

// Addition: what jobs of one queue have in common whose last attempt failed: their class, and the line of the error
// with what varies in it left out. A job leaves it by success, cancellation, or a retry by hand.
struct PinLaterFailureGroup {
  1: required string queueName,
  // The same on all servers and in all queues.
  2: required i64 groupId,
  // Empty if nobody named it.
  3: optional string className,
  4: optional string error,
  // The line of the first of these errors as it was.
  5: optional string example,
  6: optional i64 firstFailedAtTimestampMillis,
  7: optional i64 lastFailedAtTimestampMillis,
  // How many are FAILED, and how many PENDING; counted to 10,000 for each shard.
  8: optional i32 givenUp,
  9: optional i32 retrying,
}

// Addition: what a worker tells again and again.
struct PinLaterReportWorkerRequest {
  // At most 256 KB in all.
  1: required PinLaterWorker worker,
  // For how long it is believed without another report, at most a day. 0: it has ended; forget it.
  2: required i32 keepMillis,
}

// Addition: what statistics are about.
enum PinLaterStatisticsKind {
  // Queues, each as a whole; job classes, or groups of failures, by queue.
  QUEUE = 0,
  CLASS = 1,
  FAILURE = 2,
}

// Addition: asks what happened in past minutes or hours.
struct PinLaterStatisticsRequest {
  1: required PinLaterStatisticsKind kind,
  // Of a period: 60, kept for 26 hours, or 3600, kept for 38 days.
  2: required i32 resolutionSeconds,
  // Periods from the one that this moment is in.
  3: required i64 sinceTimestampMillis,
  // Periods that began before this; absent = now.
  4: optional i64 untilTimestampMillis,
  // Absent or empty = all queues. An empty name stands for all queues together.
  5: optional list<string> queueNames,
  // Class, or id of a failure group; absent = any.
  6: optional string name,
}

// Addition: what happened in one period. Buckets are numbered: those of times up to 0.1, 0.15, 0.22, 0.33, 0.47, 0.68,
// 1, 1.5, 2.2, ... 100,000,000 ms have the numbers 0 to 54; what took longer is in 55.
struct PinLaterStatistics {
  // Empty: all queues together.
  1: required string queueName,
  // Class, or id of a failure group; empty for a queue as a whole.
  2: required string name,
  3: required i64 startTimestampMillis,
  4: optional i64 enqueued,
  // Jobs handed out.
  5: optional i64 started,
  // Attempts that succeeded.
  6: optional i64 succeeded,
  // Attempts that failed, those of expired claims included.
  7: optional i64 failed,
  // Jobs that failed for good.
  8: optional i64 givenUp,
  // Bucket -> how many jobs waited so long, from when they were due to their start.
  9: optional map<i32, i64> waitBuckets,
  // Bucket -> how many attempts ran so long.
  10: optional map<i32, i64> runBuckets,
}

exception PinLaterException {
  1: required ErrorCode errorCode,
  2: required string message,
  // Of STALE_CLAIMS: the jobs that are not held.
  100: optional list<string> jobDescriptors,
  // Of STALE_CLAIMS: the jobs that are held, and asked to stop.
  101: optional list<string> cancelledDescriptors,
}

service PinLater {
  void createQueue(1: RequestContext context, 2: string name)
    throws (1: PinLaterException e),
  void deleteQueue(1: RequestContext context, 2: string name, 3: string password)
    throws (1: PinLaterException e),
  PinLaterEnqueueResponse enqueueJobs(1: RequestContext context, 2: PinLaterEnqueueRequest request)
    throws (1: PinLaterException e),
  PinLaterDequeueResponse dequeueJobs(1: RequestContext context, 2: PinLaterDequeueRequest request)
    throws (1: PinLaterException e),
  void ackDequeuedJobs(1: RequestContext context, 2: PinLaterJobAckRequest request)
    throws (1: PinLaterException e),
  void checkpointJobs(1: RequestContext context, 2: PinLaterCheckpointJobsRequest request)
    throws (1: PinLaterException e),
  // Addition: as checkpointJobs. For requests with `keeps`: a server that would not store them does not know this call.
  void checkpointAndKeep(1: RequestContext context, 2: PinLaterCheckpointJobsRequest request)
    throws (1: PinLaterException e),
  map<string, PinLaterJobInfo> lookupJobs(1: RequestContext context, 2: PinLaterLookupJobRequest request)
    throws (1: PinLaterException e),
  i32 getJobCount(1: RequestContext context, 2: PinLaterGetJobCountRequest request)
    throws (1: PinLaterException e),
  set<string> getQueueNames(1: RequestContext context)
    throws (1: PinLaterException e),
  PinLaterScanJobsResponse scanJobs(1: RequestContext context, 2: PinLaterScanJobsRequest request)
    throws (1: PinLaterException e),
  i32 retryFailedJobs(1: RequestContext context, 2: PinLaterRetryFailedJobsRequest request)
    throws (1: PinLaterException e),
  i32 deleteJobs(1: RequestContext context, 2: PinLaterDeleteJobsRequest request)
    throws (1: PinLaterException e),
  // Addition: returns how many jobs it made due.
  i32 runJobsNow(1: RequestContext context, 2: PinLaterRunJobsNowRequest request)
    throws (1: PinLaterException e),
  // Addition: returns how many jobs it made due at another time.
  i32 scheduleJobs(1: RequestContext context, 2: PinLaterScheduleJobsRequest request)
    throws (1: PinLaterException e),
  // Addition: returns how many jobs were cancelled or asked to stop, their children included.
  i32 cancelJobs(1: RequestContext context, 2: PinLaterCancelJobsRequest request)
    throws (1: PinLaterException e),
  // Addition: returns whether the job has the message; false: it is not there, or has finished.
  bool sendMessage(1: RequestContext context, 2: PinLaterSendMessageRequest request)
    throws (1: PinLaterException e),
  // Addition.
  list<PinLaterMessage> readMessages(1: RequestContext context, 2: PinLaterReadMessagesRequest request)
    throws (1: PinLaterException e),
  // Addition.
  PinLaterCancelledJobs getCancelledJobs(1: RequestContext context, 2: PinLaterCancelledJobsRequest request)
    throws (1: PinLaterException e),
  // Addition.
  i32 releaseClaims(1: RequestContext context, 2: PinLaterReleaseClaimsRequest request)
    throws (1: PinLaterException e),
  PinLaterEnqueueResponse importJobs(1: RequestContext context, 2: PinLaterImportJobsRequest request)
    throws (1: PinLaterException e),
  // Of all queues, those without any limit included.
  map<string, PinLaterQueueSettings> getQueueSettings(1: RequestContext context)
    throws (1: PinLaterException e),
  void changeQueueSettings(1: RequestContext context, 2: PinLaterChangeQueueSettingsRequest request)
    throws (1: PinLaterException e),
  // Replaces what the same worker has reported before.
  void reportWorker(1: RequestContext context, 2: PinLaterReportWorkerRequest request)
    throws (1: PinLaterException e),
  // All that have reported and are still believed; at most 10,000, and as many as an answer holds.
  list<PinLaterWorker> getWorkers(1: RequestContext context)
    throws (1: PinLaterException e),
  // Addition: returns. A server that knows it keeps the results of calls with an idempotency key.
  void keepsResults(1: RequestContext context)
    throws (1: PinLaterException e),
  // Those with jobs, the largest first; at most so many as an answer holds.
  list<PinLaterFailureGroup> getFailureGroups(1: RequestContext context, 2: PinLaterFailureGroupsRequest request)
    throws (1: PinLaterException e),
  // Since when the job is due that has been so for longest, by queue; queues without one are left out. No names: all.
  map<string, i64> getOldestDueTimestamps(1: RequestContext context, 2: list<string> queueNames)
    throws (1: PinLaterException e),
  // Addition: what happened in past minutes or hours, in the order of time, without empty periods; more than 20,000 are refused.
  list<PinLaterStatistics> getStatistics(1: RequestContext context, 2: PinLaterStatisticsRequest request)
    throws (1: PinLaterException e),
}
