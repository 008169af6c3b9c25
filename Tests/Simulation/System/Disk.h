/* The disk's own types, for Disk.c and Calls.c. */
#ifndef SIMULATED_DISK_H
#define SIMULATED_DISK_H

#include "include/SimulatedSystem.h"
#include <stdint.h>
#include <sys/types.h>

#define BLOCK 4096
#define SECTOR 512
#define NAME_BYTES 64
/* Address space of a mapped file; none that is mapped gets larger. */
#define MAPPED_BYTES (16 << 20)

struct inode;

struct entry {
    char name[NAME_BYTES];
    struct inode *inode;
};

struct entries {
    struct entry *list;
    int count, capacity;
};

/* A change of a directory that is not durable yet: `from` goes, if there is one, and `to` comes. */
struct change {
    char from[NAME_BYTES], to[NAME_BYTES];
    struct inode *inode;
};

struct inode {
    struct inode *next;
    struct inode *twin;
    struct disk *disk;
    char name[NAME_BYTES];
    uint64_t number;
    int is_directory, is_random, is_mapped, links, opens, locker;
    unsigned char *bytes, *durable;
    int64_t size, capacity, durable_size;
    struct entries names, durable_names;
    struct change *changes;
    int change_count, change_capacity;
};

struct disk {
    struct inode *inodes, *root;
    uint64_t device, next_number;
    int64_t blocks, files, blocks_max, files_max, opens;
};

extern struct disk *sim_disk;

struct inode *sim_find(struct inode *directory, const char *name);
struct inode *sim_make(struct inode *directory, const char *name, int is_directory);
void sim_remove(struct inode *directory, const char *name);
void sim_move(struct inode *directory, const char *from, const char *to);
/* 0, or an errno. Bytes beyond the old size are zero. */
int sim_resize(struct inode *file, int64_t size);
void sim_sync_inode(struct inode *inode);
/* Gives a file an address that stays; with `at`, that one, which another file has now. */
unsigned char *sim_map(struct inode *file, unsigned char *at);
/* The file that is mapped at an address; NULL if it is none of ours. */
struct inode *sim_mapped(const void *address);
void sim_release(struct inode *inode);
struct inode *sim_special(const char *text, int is_random);

#endif
