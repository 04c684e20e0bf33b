/*
 * The PinLater service: clients enqueue jobs, workers dequeue and acknowledge (ack) them.
 *
 * Ids below 100 are the original contract and never change. Ids from 100 up are additions of this
 * implementation. All are optional: a client of the original never sees them, and a server of the original
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
  // Who is calling, by convention service:host; the end of one of more than 300 characters is replaced by a digest. Part of
  // every claim descriptor; a checkpoint without one is matched by it.
  1: required string source,
  // For logs only.
  2: optional string requestId = "",
  // Idempotency key of an enqueueJobs, importJobs, retryFailedJobs, runJobsNow, scheduleJobs or deleteJobs call: 16 bytes unique
  // to the call, preferably starting with the time (UUID version 7). The store keeps the result for a while; a repeat gets it.
  100: optional binary idempotencyKey,
  // The call with this key may already have been carried out: it was sent before, but no answer arrived.
  101: optional bool isRepeat,
  // How long its result is kept, at most a day; absent = the server's setting.
  102: optional i32 keepResultMillis,
  // Asks a stopping server to say so before it closes the connection: by a message "stopping" (ONEWAY, sequence id 0, an
  // empty struct) after its last reply. Calls that were not answered before it were not carried out and will not be.
  103: optional bool hearsStopping,
}

struct PinLaterJob {
  1: required binary body,
  // 1 is served first.
  2: optional byte priority = 1,
  // Epoch milliseconds; absent = now.
  3: optional i64 runAfterTimestampMillis,
  // Including the first attempt.
  4: optional i32 numAttemptsAllowed = 2,
  5: optional string customStatus = "",
  // At most 200 characters. While another job of the queue with this key is PENDING or IN_PROGRESS, this one is not stored,
  // and the answer has the descriptor of the other one. A job gives up its key when it finishes.
  100: optional string uniqueKey,
  // Store this job even while the other one runs or waits for another attempt: a job that was ever claimed gives up its key.
  101: optional bool uniqueUntilStarted,
  // How long from now the key stays taken, even if the job finishes earlier; at most 366 days. Until then, enqueues with the
  // key are answered with the descriptor of this job. A job that is deleted before it finishes releases its key.
  102: optional i64 uniqueForMillis,
  // What happens to the other job, if it was never claimed: 0 (or absent) it is left as it is; 1 it gets the body, attempts and
  // status of this one; 2 also its time, unless that is past. It keeps its descriptor, priority and time of creation.
  103: optional i32 onDuplicate,
  // With onDuplicate = 2: how long after its own enqueue the other job is due at the latest.
  104: optional i64 maxDelayMillis,
  // A key that jobs of the queue share, such as a customer; at most 200 characters. Jobs of different keys take turns.
  105: optional string key,
  // How many jobs of the key may run at once; 1 or more. The others wait, as PENDING.
  106: optional i32 maxRunningOfKey,
  // The jobs of the key run one at a time, in the order in which they were enqueued, even if one of them is retried.
  107: optional bool keyInOrder,
  // The parent: the job that waits for the end of this one, and gets a message then. If it does not exist, has finished or
  // is asked to stop, this job is refused. Requires the next two fields.
  108: optional string parentDescriptor,
  // Name of the message, 1 to 200 characters.
  109: optional string parentMessageName,
  // Id of the message: this job's position among those with the same message name, from 0.
  110: optional i32 parentPosition,
  // Maximum rate at which jobs of the key are started: "10/s", "100/m", "1000/h" or "5/d". The latest rate of a key counts;
  // a job without a rate does not change it. The others wait, as PENDING.
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
  // For a failure that leads to a retry.
  3: optional i64 retryDelayMillis = 0,
  // Fencing: if given, it must be the job's current claim; otherwise the ack changes nothing.
  100: optional string claimDescriptor,
  // For a failure: the job is FAILED now, even if attempts remain.
  101: optional bool isFinal,
  // For a success: what the job returned; stored with the job, and sent to its parent.
  102: optional binary result,
  // For a failure: the job was cancelled; it is FAILED now, marked as cancelled.
  103: optional bool isCancelled,
  // For a failure: the job's class, by which failures are grouped.
  104: optional string className,
  // For a success: how long the attempt ran; stored with the job. Workers leave out times below 50 ms.
  105: optional i64 runMillis,
}

// Addition: outcomes of the attempts of a job class since the worker process last reported. Buckets: see PinLaterStatistics.
struct PinLaterRunStatistics {
  // 1 to 200 characters.
  1: required string className,
  2: optional i64 succeeded,
  3: optional i64 failed,
  // Jobs that failed for good.
  4: optional i64 givenUp,
  // Bucket -> number of attempts that ran for such a time.
  5: optional map<i32, i64> runBuckets,
  // Bucket -> number of jobs that waited for such a time; a sample is enough.
  6: optional map<i32, i64> waitBuckets,
}

struct PinLaterJobAckRequest {
  1: required string queueName,
  2: optional list<PinLaterJobAckInfo> jobsSucceeded,
  3: optional list<PinLaterJobAckInfo> jobsFailed,
  // Sent every few seconds, even without acks. Invalid entries are ignored; the acks are carried out in any case.
  100: optional list<PinLaterRunStatistics> runStatistics,
}

struct PinLaterDequeueRequest {
  1: required string queueName,
  2: required i32 limit,
  // Acks sent along; carried out even if the dequeue is refused.
  3: optional PinLaterJobAckRequest jobAckRequest,
  // Return the jobs without claiming them.
  4: optional bool dryRun = false,
  // Share of the shards to visit.
  5: optional double coverage = 1.0,
  // Long poll: how long the answer may wait for a job. Another request on the same connection ends the wait.
  100: optional i32 waitMillis,
  // Lease of these claims: a job without an ack or checkpoint for this long is handed out again.
  101: optional i32 claimTimeoutMillis,
  // Further queues to take jobs from if queueName has none, in this order; the descriptors name the queue of each job.
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
  // Descriptor -> body, in the order of dequeueing. Both maps are absent if there is no job.
  1: optional map<string, binary> jobs,
  2: optional map<string, PinLaterDequeueMetadata> jobMetadata,
  // The time by which the server judges what is due, epoch milliseconds.
  100: optional i64 serverTimestampMillis,
}

// Addition: a sleeping job is due once a number of messages of one name have arrived for it.
struct PinLaterMessageWait {
  1: required string messageName,
  // Counts all that ever arrived, including those that the job has read.
  2: required i32 count,
}

// Addition: a message from a job to its later attempts. Name and id: 1 to 200 characters; a second one with the same is dropped.
struct PinLaterKeptMessage {
  1: required string name,
  2: required string id,
  3: required binary payload,
}

struct PinLaterCheckpointJobRequest {
  1: required string jobDescriptor,
  2: optional binary newBody,
  // Give the job back without spending an attempt.
  3: optional bool moveToPending = false,
  // Epoch milliseconds; absent = unchanged if there is a claimDescriptor, otherwise now.
  4: optional i64 runAfterTimestampMillis,
  // Sets both allowed and remaining.
  5: optional i32 numOfAttemptsAllowed,
  6: optional string prependCustomStatus,
  // Fencing: if given, it must be the job's current claim; if not, the caller's source must be that of the claim.
  100: optional string claimDescriptor,
  // Takes precedence over newBody; for clients whose IDL declares that as string.
  101: optional binary newBodyBytes,
  // With moveToPending: the job is due as soon as one of these is fulfilled, at once if one is already; until the next claim.
  102: optional list<PinLaterMessageWait> waitsFor,
  // Stored with the job if it is held; readMessages returns them. Together at most as many bytes as a body may have.
  103: optional list<PinLaterKeptMessage> keeps,
  // Names of messages that the job no longer needs; up to 10,000 of each name are deleted if the job is held.
  104: optional list<string> drops,
}

struct PinLaterCheckpointJobsRequest {
  1: required string queueName,
  2: required list<PinLaterCheckpointJobRequest> requests,
  // Answer with STALE_CLAIMS if a job that is not given back is no longer held as its request says (it was not changed, but
  // the other requests were carried out), or if a job that is held is asked to stop.
  100: optional bool tellStale,
}

struct PinLaterLookupJobRequest {
  1: required list<string> jobDescriptors,
  2: optional bool includeBody = false,
  100: optional bool includeResult,
  // How long the answer may wait until all jobs have finished or are gone. Another request on the connection ends the wait.
  101: optional i32 waitMillis,
  // Longer bodies are cut to this many bytes, for instance for a list that shows what the jobs are. At least 1; absent = no cut.
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
  // The job is PENDING, and waits for other jobs of its key.
  104: optional bool waitsForKey,
  // Of a SUCCEEDED job, if requested; absent if it returned nothing.
  105: optional binary result,
  // Of a FAILED job: it was cancelled. Of one IN_PROGRESS: it is asked to stop.
  106: optional bool isCancelled,
  // See PinLaterJob, also for the next two fields.
  107: optional string parentDescriptor,
  108: optional string parentMessageName,
  109: optional i32 parentPosition,
  // The job is PENDING, and is due earlier if one of these is fulfilled.
  110: optional list<PinLaterMessageWait> waitsFor,
  // If its last attempt failed, the group of that failure. See PinLaterFailureGroup.
  111: optional i64 failureGroup,
  // Of a SUCCEEDED job: how long its last attempt ran; absent if that was short, or was not reported.
  112: optional i64 runMillis,
  // The rate with which the job was enqueued; see PinLaterJob.
  113: optional string rateOfKey,
}

struct PinLaterGetJobCountRequest {
  1: required string queueName,
  2: required PinLaterJobState jobState,
  // Absent = all levels.
  3: optional byte priority,
  4: optional bool countFutureJobs = false,
  5: optional string bodyRegexToMatch,
  // Of PENDING jobs, only those that wait for others of their key; countFutureJobs counts them as well.
  100: optional bool waitingForKey,
  // Of PENDING jobs: true = only those whose last attempt failed, due or not; false = none of those.
  101: optional bool retrying,
  // Of PENDING or FAILED jobs, only those of this failure group, due or not; not together with a priority.
  102: optional i64 failureGroup,
  // If a shard does not answer, refuse: SHARD_CONNECTION_FAILED, with missingShards and countElsewhere. Otherwise its jobs are
  // silently left out.
  103: optional bool tellMissing,
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
  // As in PinLaterGetJobCountRequest.
  100: optional bool retrying,
  101: optional i64 failureGroup,
  // Start with the jobs due earliest; otherwise with those due latest.
  102: optional bool oldestFirst,
  // Of PENDING or IN_PROGRESS jobs, only those with this key, shared or unique, due or not; not together with other filters.
  103: optional string key,
}

struct PinLaterScanJobsResponse {
  1: required list<PinLaterJobInfo> scannedJobs,
  2: optional string continuation = CONTINUATION_END,
  // For a search of bodies: how many jobs it examined. It stops after a while, perhaps without a job, and can go on from there.
  100: optional i64 lookedAt,
  // Shards that did not answer; their jobs are left out. Absent = none.
  101: optional list<string> missingShards,
}

struct PinLaterRetryFailedJobsRequest {
  1: required string queueName,
  2: optional byte priority = 1,
  3: optional i32 attemptsToAllow = 1,
  4: optional i64 runAfterTimestampMillis,
  5: optional i32 limit = 1000,
  // If given, only the FAILED ones among these jobs, regardless of priority and limit.
  100: optional list<string> jobDescriptors,
}

struct PinLaterDeleteJobsRequest {
  1: required string queueName,
  2: required PinLaterJobState jobState,
  3: optional byte priority = 1,
  4: optional string bodyRegexToMatch,
  5: optional i32 limit = 1000,
  // If given, only those among these jobs that are in jobState, regardless of priority, pattern and limit.
  100: optional list<string> jobDescriptors,
}

// Addition: makes due now those of the given jobs that are PENDING but not due yet; nothing else about them changes.
struct PinLaterRunJobsNowRequest {
  1: required string queueName,
  2: required list<string> jobDescriptors,
}

// Addition: makes those of the given jobs that are PENDING due at this time, earlier or later; nothing else about them changes.
struct PinLaterScheduleJobsRequest {
  1: required string queueName,
  2: required list<string> jobDescriptors,
  3: required i64 runAfterTimestampMillis,
}

// Addition: cancels jobs. PENDING ones are FAILED at once, marked as cancelled. Those that are IN_PROGRESS, or have sagas to
// undo, are asked to stop: they can still succeed, but if their claim ends in any other way they are FAILED as well, once all
// is undone. The same happens to their children, the jobs whose parent they are, and to the children of those.
struct PinLaterCancelJobsRequest {
  1: required string queueName,
  2: required list<string> jobDescriptors,
  // Appended to their custom status.
  3: optional string appendCustomStatus,
}

// Addition: a message for a job that has not finished. It is stored with the job.
struct PinLaterSendMessageRequest {
  1: required string jobDescriptor,
  // 1 to 200 characters.
  2: required string name,
  // 1 to 200 characters. A second message with the same name and id is dropped.
  3: required string id,
  4: required binary payload,
}

// Addition: what a message tells the job.
enum PinLaterMessageKind {
  // It was sent by a call.
  EVENT = 0,
  // A child has succeeded; the payload is its result, empty if it returned nothing.
  SUCCEEDED = 1,
  // A child has failed for good; the payload is the end of its custom status.
  FAILED = 2,
  CANCELLED = 3,
  // A child was deleted before it finished.
  DELETED = 4,
}

// Addition: a message as its job reads it.
struct PinLaterMessage {
  // Counts the messages of one name from 1, in the order of their arrival.
  1: required i64 number,
  2: required string id,
  3: required PinLaterMessageKind kind,
  4: required binary payload,
}

// Addition: asks for messages of one name, in the order of arrival; no more than fit into the answer, but at least one.
struct PinLaterReadMessagesRequest {
  1: required string jobDescriptor,
  2: required string name,
  // Only those with a larger number.
  3: optional i64 after = 0,
  4: optional i32 limit = 1000,
}

// Addition: asks which jobs were asked to stop recently.
struct PinLaterCancelledJobsRequest {
  // serverTimestampMillis of the last answer; 0 in the first call.
  1: required i64 sinceTimestampMillis,
  // How long the answer may wait for such a job. Another request on the same connection ends the wait.
  2: optional i32 waitMillis,
}

struct PinLaterCancelledJobs {
  // Jobs that were asked to stop while IN_PROGRESS; the server forgets them after about a minute.
  1: required list<string> jobDescriptors,
  2: required i64 serverTimestampMillis,
}

// Addition: gives back every claim that one source still holds, without spending attempts.
struct PinLaterReleaseClaimsRequest {
  1: required string queueName,
  // RequestContext.source of the dequeues, matched exactly.
  2: required string claimSource,
}

// Addition: jobs of another store, as a scan and a lookup there returned them.
struct PinLaterImportJobsRequest {
  1: required string queueName,
  // With bodies. Only the priority is taken from the descriptors; claimed jobs become PENDING without spending an attempt.
  2: required list<PinLaterJobInfo> jobs,
}

// Addition: pause and limits of a queue, and the shards of its new jobs, on all servers of a store.
struct PinLaterQueueSettings {
  1: optional bool isPaused = false,
  // For all servers together; absent = no limit.
  2: optional double maxJobsPerSecond,
  // How many jobs may be claimed at once; absent = no limit.
  3: optional i32 maxRunning,
  // The server's file of rate limits names the queue, and overrides isPaused and maxJobsPerSecond.
  4: optional bool isFromFile = false,
  // How many shards new jobs without a key go to; -1 = as many as the load needs, absent = all.
  5: optional i32 shards,
  // If shards is -1: how many that is now; absent = not known yet.
  6: optional i32 shardsByLoad,
  // The names of these shards; absent = all.
  7: optional list<string> activeShards,
}

// Addition. Absent fields leave the setting unchanged; a limit of 0 removes the limit.
struct PinLaterChangeQueueSettingsRequest {
  1: required string queueName,
  2: optional bool isPaused,
  3: optional double maxJobsPerSecond,
  4: optional i32 maxRunning,
  5: optional i32 shards,
}

// Addition: a job that a worker reports as running.
struct PinLaterRunningJob {
  1: required string jobDescriptor,
  2: required i64 startedAtTimestampMillis,
}

// Addition: a job process, as its worker reports it; times are by the worker's clock.
struct PinLaterWorkerProcess {
  1: required i32 pid,
  2: optional string pool,
  // Queues that it takes jobs from.
  3: optional list<string> queueNames,
  4: optional i64 startedAtTimestampMillis,
  // Resident memory.
  5: optional i64 memoryBytes,
  // How many jobs it can run at the same time.
  6: optional i32 jobsAtOnce,
  // Jobs that have ended since it started, whatever their outcome.
  7: optional i64 jobsEnded,
  8: optional list<PinLaterRunningJob> runningJobs,
  // Resident memory minus lasting growth: the part gained since its first job ended that fits its present pace of growth.
  9: optional i64 memoryAtStartBytes,
}

// Addition: jobs that a worker has recently given back because they do not fit its code.
struct PinLaterUnknownJobs {
  1: required string queueName,
  // "(unreadable)" where the body names no class.
  2: required string className,
  // How often it gave one back; a job that comes again counts again.
  3: optional i64 timesReturned,
  4: optional i64 lastReturnedAtTimestampMillis,
  // When it began to give them back, without a break of ten minutes since.
  5: optional i64 firstReturnedAtTimestampMillis,
}

// Addition: a job class that a worker knows.
struct PinLaterJobClass {
  1: required string className,
  // Queue that its jobs are enqueued to by default.
  2: required string queueName,
  3: optional i32 priority,
  4: optional i32 attempts,
  // JSON schema of its bodies.
  5: optional string bodySchema,
}

// Addition: what a worker has recently run from a queue whose job classes have a latency target.
struct PinLaterQueueLoad {
  1: required string queueName,
  // Time within which due jobs should start.
  2: required i64 latencyTargetMillis,
  // How many jobs of the queue the worker can run at the same time, and how many it runs now.
  3: optional i32 jobsAtOnce,
  4: optional i32 jobsRunning,
  // Length of the period, up to now, that the following fields cover.
  5: optional i64 windowMillis,
  6: optional i64 jobsEnded,
  // Total time that jobs ran in that period; concurrent jobs add up.
  7: optional i64 busyMillis,
}

// Addition: a worker, that is one supervisor with its job processes, as it reports itself.
struct PinLaterWorker {
  // Distinguishes it from all other workers, including earlier ones on the same host. At most 200 characters.
  1: required string workerId,
  2: required string host,
  3: optional i32 pid,
  4: optional string version,
  5: optional string pythonVersion,
  6: optional i64 startedAtTimestampMillis,
  // It takes no more jobs, and exits when its running jobs have ended.
  7: optional bool isDraining,
  8: optional list<PinLaterWorkerProcess> processes,
  // In an answer: set by the server.
  9: optional i64 reportedAtTimestampMillis,
  // It knows no class for them, or cannot read their bodies.
  10: optional list<PinLaterUnknownJobs> unknownJobs,
  11: optional list<PinLaterQueueLoad> queueLoads,
  // By the worker's clock; the difference to reportedAtTimestampMillis shows how far that clock is off.
  12: optional i64 sentAtTimestampMillis,
  // As many as fit into 16 KB.
  13: optional list<PinLaterJobClass> jobClasses,
  // In an answer: when its connection ended without a last report, by the store's clock; sentAtTimestampMillis is then absent.
  14: optional i64 lostAtTimestampMillis,
  // Their recorded steps do not fit its code.
  15: optional list<PinLaterUnknownJobs> unfittingJobs,
  // They enqueue others in a queue that does not exist.
  16: optional list<PinLaterUnknownJobs> queuelessJobs,
  // Its latest process could not start, as after a reload of code that cannot be loaded; those from before may run on.
  17: optional bool cannotStart,
}

// Addition: asks for the failure groups of some queues.
struct PinLaterFailureGroupsRequest {
  // Absent or empty = all queues.
  1: optional list<string> queueNames,
  // Maximum number of groups; those with the most jobs are returned.
  2: optional i32 limit = 200,
}

// Addition: jobs of one queue whose last attempt failed in the same way: same class, and same line of the error apart from
// the parts that vary. A job leaves its group when it succeeds, is cancelled or is retried by hand.
struct PinLaterFailureGroup {
  1: required string queueName,
  // The same on all servers and in all queues.
  2: required i64 groupId,
  // Empty if no ack named it.
  3: optional string className,
  4: optional string error,
  // The whole line of the first of these errors.
  5: optional string example,
  6: optional i64 firstFailedAtTimestampMillis,
  7: optional i64 lastFailedAtTimestampMillis,
  // How many of its jobs are FAILED, and how many PENDING; counted up to 10,000 per shard.
  8: optional i32 givenUp,
  9: optional i32 retrying,
}

// Addition: the report that a worker sends regularly.
struct PinLaterReportWorkerRequest {
  // At most 256 KB in all.
  1: required PinLaterWorker worker,
  // How long the report is valid without another one, at most a day. 0 = the worker has ended; forget it.
  2: required i32 keepMillis,
}

// Addition: what statistics are about.
enum PinLaterStatisticsKind {
  // Whole queues; or job classes or failure groups, each per queue.
  QUEUE = 0,
  CLASS = 1,
  FAILURE = 2,
}

// Addition: asks what happened in past minutes or hours.
struct PinLaterStatisticsRequest {
  1: required PinLaterStatisticsKind kind,
  // Length of a period: 60, kept for 26 hours, or 3600, kept for 38 days.
  2: required i32 resolutionSeconds,
  // Periods from the one that contains this moment.
  3: required i64 sinceTimestampMillis,
  // Periods that began before this; absent = now.
  4: optional i64 untilTimestampMillis,
  // Absent or empty = all queues. An empty name stands for all queues together.
  5: optional list<string> queueNames,
  // Class, or id of a failure group; absent = any.
  6: optional string name,
}

// Addition: what happened in one period. Durations are counted in buckets: 0 to 54 are those up to 0.1, 0.15, 0.22, 0.33,
// 0.47, 0.68, 1, 1.5, 2.2, ... 100,000,000 ms; 55 is for longer ones.
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
  // Attempts that failed, including those of expired claims.
  7: optional i64 failed,
  // Jobs that failed for good.
  8: optional i64 givenUp,
  // Bucket -> number of jobs that waited for such a time, from when they were due to their start.
  9: optional map<i32, i64> waitBuckets,
  // Bucket -> number of attempts that ran for such a time.
  10: optional map<i32, i64> runBuckets,
}

exception PinLaterException {
  1: required ErrorCode errorCode,
  2: required string message,
  // For STALE_CLAIMS: the jobs that are not held.
  100: optional list<string> jobDescriptors,
  // For STALE_CLAIMS: the jobs that are held, but asked to stop.
  101: optional list<string> cancelledDescriptors,
  // For a getJobCount with tellMissing: the shards that did not answer, and how many jobs the others have.
  102: optional list<string> missingShards,
  103: optional i32 countElsewhere,
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
  // Addition: like checkpointJobs, for requests with `keeps`: a server that would not store those does not know this call.
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
  // Addition: returns how many jobs it rescheduled.
  i32 scheduleJobs(1: RequestContext context, 2: PinLaterScheduleJobsRequest request)
    throws (1: PinLaterException e),
  // Addition: returns how many jobs were cancelled or asked to stop, including children.
  i32 cancelJobs(1: RequestContext context, 2: PinLaterCancelJobsRequest request)
    throws (1: PinLaterException e),
  // Addition: returns whether the job has the message; false if the job does not exist or has finished.
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
  // Settings of all queues, including those without limits.
  map<string, PinLaterQueueSettings> getQueueSettings(1: RequestContext context)
    throws (1: PinLaterException e),
  void changeQueueSettings(1: RequestContext context, 2: PinLaterChangeQueueSettingsRequest request)
    throws (1: PinLaterException e),
  // Replaces the last report of the same worker.
  void reportWorker(1: RequestContext context, 2: PinLaterReportWorkerRequest request)
    throws (1: PinLaterException e),
  // All workers whose last report is still valid; at most 10,000, and no more than fit into an answer.
  list<PinLaterWorker> getWorkers(1: RequestContext context)
    throws (1: PinLaterException e),
  // Addition: does nothing. A server that knows this call keeps the results of calls with an idempotency key.
  void keepsResults(1: RequestContext context)
    throws (1: PinLaterException e),
  // Groups with jobs, the largest first; no more than fit into an answer.
  list<PinLaterFailureGroup> getFailureGroups(1: RequestContext context, 2: PinLaterFailureGroupsRequest request)
    throws (1: PinLaterException e),
  // Queue -> when its oldest due job became due; queues without due jobs are left out. No names = all queues.
  map<string, i64> getOldestDueTimestamps(1: RequestContext context, 2: list<string> queueNames)
    throws (1: PinLaterException e),
  // Addition: what happened in past minutes or hours, in the order of time, without empty periods; refused if more than 20,000.
  list<PinLaterStatistics> getStatistics(1: RequestContext context, 2: PinLaterStatisticsRequest request)
    throws (1: PinLaterException e),
}
