/* A disk in memory that stands in for the kernel's below "/sim", for one thread.
 *
 * `Calls.c` defines the C library's file calls; linked into a program, they take the place of the library's, for the
 * program's own code and for SQLite's, and hand what is not below "/sim" on to the kernel. `Disk.c` is the disk: it
 * knows of every file what a power cut would leave of it. Before each call that may fail, or be the last, a hook is
 * asked. Nothing here decides anything: seeds and faults are the simulation's.
 */
#ifndef SIMULATED_SYSTEM_H
#define SIMULATED_SYSTEM_H

#include <stdint.h>

/* Kinds of calls, as the hook gets them. */
enum {
    SIM_OPEN, SIM_CREATE, SIM_READ, SIM_WRITE, SIM_SYNC, SIM_RENAME, SIM_UNLINK, SIM_TRUNCATE, SIM_ALLOCATE, SIM_MAKE,
    SIM_MSYNC, SIM_SLEEP, SIM_WAIT
};

/* What is to become of a call on a file of that name, which would move `count` bytes: `count` to go on, less to cut it
 * short, a negative errno to fail. For SIM_WAIT: 0 if nobody could be let run, so that waiting is for ever. */
typedef int64_t (*sim_hook)(int32_t call, const char *name, int64_t offset, int64_t count);
void sim_set_hook(sim_hook hook);

/* An empty disk of so many bytes and files; what was there before is gone. */
void sim_format(int64_t bytes, int64_t files);
void sim_set_room(int64_t bytes, int64_t files);
/* Bytes that files take, in blocks of 4 KiB; files, directories included. */
int64_t sim_used_bytes(void);
int64_t sim_used_files(void);
/* Descriptors that are open, sinks left out. */
int64_t sim_open_files(void);
/* What the `index`-th of them is open for, in the order of their numbers; NULL behind the last. */
const char *sim_open_name(int64_t index);

/* Keeps what the next process would find if this one were killed now, or the power were cut now (`keep` of 256
 * unsynced sectors survive). Whatever happens until `sim_restart` is not in it. */
void sim_keep_for_kill(void);
void sim_keep_for_power_cut(uint64_t seed, uint32_t keep);
/* What was kept becomes the disk; 0 if nothing was kept, or descriptors of the present one are open. */
int32_t sim_restart(void);

/* What the kernel says its boot is called, and the seed of its random numbers. */
void sim_boot(const char *name, uint64_t seed);

/* The files in the order of their numbers: the name of the `index`-th, and its size; NULL behind the last. */
const char *sim_file(int64_t index, int64_t *bytes);
/* Flips one bit of the `index`-th file, synced or not. */
void sim_flip(int64_t index, int64_t offset, uint32_t bit);
/* Where the text comes next in the `index`-th file, from `offset` on and then from its beginning; -1 if nowhere. */
int64_t sim_seek(int64_t index, const char *text, int64_t offset);
/* Removes the `index`-th file, as a repair or an accident would. */
void sim_lose(int64_t index);

/* A socket that takes `room` bytes and keeps them. */
int32_t sim_sink(void);
void sim_sink_room(int32_t sink, int64_t room);
int64_t sim_sink_take(int32_t sink, void *bytes, int64_t room);
void sim_sink_close(int32_t sink);

#endif
