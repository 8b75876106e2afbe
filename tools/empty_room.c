/* A room whose files have not moved in yet. */
typedef int tn__empty_room;
