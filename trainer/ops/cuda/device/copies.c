// Copies between the host and the GPU, for which nobody waits: they go by way of page-locked memory
// of the host, which the GPU reads and writes by itself when it comes to them. With ordinary memory
// the driver would do so, and have the caller wait for all that the GPU has to do before.
//
// There are two pieces of it. One fills up; when it is full it is marked with an event, and the
// other is taken, once the GPU has come to that one's. What has been downloaded is handed on then,
// or by ops_synchronize(). Large copies go part by part, so that few of them wait for room.
#include <stdlib.h>
#include <string.h>

#include "trainer/ops/cuda/device/stream.h"
#include "trainer/ops/device.h"

enum { PIECE = 64 << 20, PART = PIECE / 4, PIECES = 2, ALIGNMENT = 256, ARRIVALS = 512 };

struct arrival {
    void *host;
    const void *from; // in the piece
    size_t bytes;
};

struct piece {
    char *room; // NULL: not yet, or the host has none
    size_t used;
    cudaEvent_t full;
    struct arrival arrivals[ARRIVALS];
    int count;
};

static struct piece pieces[PIECES];
static int now; // the piece that fills up

static struct piece *other(void)
{
    return &pieces[(now + 1) % PIECES];
}

// The GPU has come to the end of the piece.
static void empty(struct piece *p)
{
    for (int i = 0; i < p->count; i++)
        memcpy(p->arrivals[i].host, p->arrivals[i].from, p->arrivals[i].bytes);
    p->count = 0;
    p->used = 0;
}

static void change_pieces(void)
{
    struct piece *p = other();
    cuda_check(cudaEventRecord(pieces[now].full, cuda_stream()), "a copy");
    if (p->used > 0)
        cuda_check(cudaEventSynchronize(p->full), "a copy");
    empty(p);
    now = (now + 1) % PIECES;
}

static bool make_pieces(void)
{
    for (int i = 0; i < PIECES; i++) {
        struct piece *p = &pieces[i];
        if (!p->room &&
            (cudaMallocHost((void **)&p->room, PIECE) != cudaSuccess ||
             cudaEventCreateWithFlags(&p->full, cudaEventDisableTiming) != cudaSuccess)) {
            cudaGetLastError(); // the driver's way remains
            return false;
        }
    }
    return true;
}

static void *take(size_t bytes)
{
    size_t padded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!make_pieces())
        return NULL;
    if (pieces[now].used + padded > PIECE || pieces[now].count == ARRIVALS)
        change_pieces();
    void *at = pieces[now].room + pieces[now].used;
    pieces[now].used += padded;
    return at;
}

static void copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, const char *op)
{
    cuda_check(cudaMemcpyAsync(to, from, bytes, kind, cuda_stream()), op);
}

static void upload(void *to, const void *host, size_t bytes)
{
    void *aside = take(bytes);
    if (aside)
        memcpy(aside, host, bytes);
    // Of ordinary memory the driver makes a copy before it returns.
    copy(to, aside ? aside : host, bytes, cudaMemcpyHostToDevice, "ops_upload");
}

static void download(void *host, const void *from, size_t bytes)
{
    void *aside = take(bytes);
    struct piece *p = &pieces[now];
    if (aside)
        p->arrivals[p->count++] = (struct arrival){host, aside, bytes};
    copy(aside ? aside : host, from, bytes, cudaMemcpyDeviceToHost, "ops_download");
}

static size_t part_at(size_t done, size_t bytes)
{
    return bytes - done < PART ? bytes - done : PART;
}

void ops_upload(void *to, const void *host, size_t bytes)
{
    for (size_t done = 0; done < bytes; done += part_at(done, bytes))
        upload((char *)to + done, (const char *)host + done, part_at(done, bytes));
}

void ops_download(void *host, const void *from, size_t bytes)
{
    for (size_t done = 0; done < bytes; done += part_at(done, bytes))
        download((char *)host + done, (const char *)from + done, part_at(done, bytes));
}

void ops_copy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0)
        copy(to, from, bytes, cudaMemcpyDeviceToDevice, "ops_copy");
}

void ops_zero(void *to, size_t bytes)
{
    if (bytes > 0)
        cuda_check(cudaMemsetAsync(to, 0, bytes, cuda_stream()), "ops_zero");
}

void cuda_end_copies(void)
{
    empty(other()); // which is the older one
    empty(&pieces[now]);
}

void cuda_forget_copies(void)
{
    for (int i = 0; i < PIECES; i++) {
        if (pieces[i].room)
            cudaFreeHost(pieces[i].room);
        if (pieces[i].full)
            cudaEventDestroy(pieces[i].full);
    }
    memset(pieces, 0, sizeof pieces);
}
