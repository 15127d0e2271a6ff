#include "tests/support/turns.h"

#include <stddef.h>

static void *serve(void *argument)
{
    turns_seat *seat = argument;
    turn_table *table = seat->table;
    pthread_mutex_lock(&table->mutex);
    while (!seat->ends) {
        if (seat->job == NULL) {
            pthread_cond_wait(&table->changed, &table->mutex);
            continue;
        }
        turns_job job = seat->job;
        pthread_mutex_unlock(&table->mutex);
        job(seat->argument);
        pthread_mutex_lock(&table->mutex);
        seat->job = NULL;
        pthread_cond_broadcast(&table->changed);
    }
    pthread_mutex_unlock(&table->mutex);
    return NULL;
}

static bool start(turn_table *table, int thread)
{
    turns_seat *seat = &table->seats[thread];
    *seat = (turns_seat){.table = table};
    return pthread_create(&seat->thread, NULL, serve, seat) == 0;
}

static void end(turn_table *table, int thread)
{
    turns_seat *seat = &table->seats[thread];
    pthread_mutex_lock(&table->mutex);
    seat->ends = true;
    pthread_cond_broadcast(&table->changed);
    pthread_mutex_unlock(&table->mutex);
    pthread_join(seat->thread, NULL);
}

bool turns_open(turn_table *table, int count)
{
    table->count = 1;
    pthread_mutex_init(&table->mutex, NULL);
    pthread_cond_init(&table->changed, NULL);
    while (table->count < count) {
        if (!start(table, table->count)) {
            turns_close(table);
            return false;
        }
        table->count++;
    }
    return true;
}

void turns_run(turn_table *table, int thread, turns_job job, void *argument)
{
    if (thread == 0) {
        job(argument);
        return;
    }
    turns_seat *seat = &table->seats[thread];
    pthread_mutex_lock(&table->mutex);
    seat->argument = argument;
    seat->job = job;
    pthread_cond_broadcast(&table->changed);
    while (seat->job != NULL) {
        pthread_cond_wait(&table->changed, &table->mutex);
    }
    pthread_mutex_unlock(&table->mutex);
}

bool turns_replace(turn_table *table, int thread)
{
    end(table, thread);
    return start(table, thread);
}

void turns_close(turn_table *table)
{
    while (table->count > 1) {
        end(table, --table->count);
    }
    pthread_cond_destroy(&table->changed);
    pthread_mutex_destroy(&table->mutex);
}
