"""What a page says after a change, by the word in `?done=`. A closed set: no address makes a page
say anything else."""

NOTICES = {
    "signed-out": "You are signed out.",
    "password": "The password is changed. Other sessions of this user have ended.",
    "session-ended": "The session has ended.",
    "sessions-ended": "All other sessions have ended.",
    "totp-on": "Signing in now needs a code of your app.",
    "totp-off": "Signing in needs no code any more.",
    "key-revoked": "The key is revoked. Nothing can use it any more.",
    "added": "The entries are in the list.",
    "deleted": "Deleted.",
    "changed": "The change is saved.",
    "list-created": "The list is there; add its first entry.",
    "list-deleted": "The list and its entries are deleted.",
    "tenant-created": "The tenant is there. Give it its domains.",
    "tenant-deleted": "The tenant and all that was its own are deleted.",
    "user-created": "The user can sign in.",
    "user-deleted": "The user is deleted.",
    "released": "Released: the next hop has it.",
    "reported": "Thank you. The report is on record.",
    "blocked": "Blocked: the entry holds from the next message on.",
    "allowed": "Allowed: the entry holds from the next message on.",
}
