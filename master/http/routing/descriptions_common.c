// Texts that hold for many calls: parameters in paths, pages, filters, the shapes of errors.

#include "master/http/routing/descriptions.h"

static const struct description rows[] = {
    // --- parameters in paths ---------------------------------------------------------------------
    TEXT("{file}", "The name of a file of the web page, as its HTML names it."),
    TEXT("{userId}", "The id of the user."),
    TEXT("{username}", "The login name of the user, in upper or lower case."),
    TEXT("{tokenId}", "The id of the token. It is not the secret text of the token."),
    TEXT("{workspaceId}", "The id of the workspace."),
    TEXT("{projectId}", "The id of the project; of actions on many experiments also -1: every "
                        "project that the caller may see."),
    TEXT("{experimentId}", "The id of the experiment."),
    TEXT("{externalExperimentId}",
         "The name that the submitter gave to the experiment; 1 to 255 bytes."),
    TEXT("{key}", "A key of Determined's projects or of the metadata of runs."),
    TEXT("{label}", "The label; 1 to 255 bytes."),
    TEXT("{trialId}", "The id of the trial. Determined's calls for runs take the same number."),
    TEXT("{externalTrialId}", "The name that the submitter gave to the trial."),
    TEXT("{allocationId}", "The id of the allocation, which is one start of a task: the task's id, "
                           "a dot, and the number of the start."),
    TEXT("{resourcesId}",
         "The part of the allocation on one machine: the task's DET_RESOURCES_ID."),
    TEXT("{checkpointUuid}", "The UUID of the checkpoint."),
    TEXT("{modelName}", "The name of the model, or its id in digits."),
    TEXT("{modelVersionNum}", "The number of the version within its model, from 1."),
    TEXT("{templateName}", "The name of the template; 1 to 255 bytes, no slash."),
    TEXT("{webhookId}", "The id of the webhook."),
    TEXT("{taskId}", "The id of the task, as its object shows it."),
    TEXT("{agentId}", "The id of the agent, which is the name of its machine unless the agent was "
                      "started with another one."),
    TEXT("{slotId}", "The number of the slot on its agent, from 0."),
    TEXT("{resourcePoolName}", "The name of the resource pool."),
    TEXT("{groupId}", "The id of a group in Determined; this master has no groups."),
    TEXT("{workloadType}",
         "The kind of work in Determined (experiment or NTSC); this master has no such policies."),
    TEXT("{clientId}", "The id of an OAuth client in Determined; this master has no such clients."),
    TEXT("{} repeated", "Accepted because Determined's clients send it, and ignored: the path "
                        "names the object. Default: nothing."),
    // --- pages of lists --------------------------------------------------------------------------
    VALUE("offset", "0",
          "The number of items to skip. A negative number counts from the end of the list."),
    VALUE("limit", "1000",
          "The greatest number of items in the answer. 0 and -1 ask for all items, -2 for none: "
          "then the answer holds only their number."),
    TEXT("orderBy", "The direction of the order. Default: ascending if an order is named; "
                    "otherwise the order of the call's own."),
    TEXT("pagination", "The place of this page in the whole list."),
    TEXT("nextCursor", "The cursor of the next page; null if this page is the last one."),
    TEXT("totalIsLeast",
         "True: counting all items would be slow, so pagination.total is only a lower bound."),
    TEXT(
        "cursor",
        "Continues behind a page: the nextCursor of its answer. Every page then costs the same, "
        "and items that are added or removed in between do not shift it. Default: the first page."),
    TEXT("Pagination", "The place of a page in a list."),
    TEXT("Pagination.offset", "The number of items before this page."),
    TEXT("Pagination.limit", "The limit that the caller gave; 0: none."),
    TEXT("Pagination.startIndex", "The index of the first item of this page, from 0."),
    TEXT("Pagination.endIndex", "The index behind the last item of this page. If it is less than "
                                "total, more items follow."),
    TEXT("Pagination.total", "The number of items of the whole list, on all pages."),
    TEXT("OrderBy",
         "The direction of an order: ORDER_BY_ASC begins with the smallest or oldest, "
         "ORDER_BY_DESC with the greatest or newest, ORDER_BY_UNSPECIFIED leaves it to the call."),
    // --- filters of lists ------------------------------------------------------------------------
    TEXT("users", "The login names of users; items of one of them are listed. Default: the items "
                  "of all users."),
    TEXT("userIds",
         "The ids of users; items of one of them are listed. Default: the items of all users."),
    // --- errors ----------------------------------------------------------------------------------
    TEXT("Error", "The body of every answer that is not 2xx."),
    TEXT("Error.error", "The error as Determined's clients read it."),
    TEXT("Error.message", "The same sentence as error.error, for clients that look for it here."),
    TEXT("ErrorBody", "An error with its gRPC status."),
    TEXT("ErrorBody.code",
         "The number of the gRPC status that belongs to the HTTP status, for example 5 for 404."),
    TEXT("ErrorBody.reason", "The name of the gRPC status, for example NotFound."),
    TEXT("ErrorBody.error", "A sentence that says what is wrong, where, and what to do next."),
    TEXT("StreamError", "The error that ends a stream after its answer has begun."),
    TEXT("StreamError.grpcCode", "The number of the gRPC status."),
    TEXT("StreamError.httpCode", "The HTTP status that the answer would have had."),
    TEXT("StreamError.message", "A sentence that says why the stream ends."),
    TEXT("StreamError.httpStatus", "The name of the HTTP status."),
    TEXT("error", "The reason why the stream ends here. The line with it is the last one."),
    // --- actions on many objects -----------------------------------------------------------------
    TEXT("results", "One result for each object, in the order of the ids."),
    TEXT("ActionResult", "The result of an action on one of many objects."),
    TEXT("ActionResult.id", "The id of the object."),
    TEXT("ActionResult.error",
         "A sentence that says why the action failed; empty if it succeeded."),
    TEXT("completed", "True: the object is gone. False: it is being deleted with all that is in "
                      "it; ask for it until the answer is 404."),
};

const struct description_table common_descriptions = {"descriptions_common.c", rows,
                                                      sizeof rows / sizeof *rows};
