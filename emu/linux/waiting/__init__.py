"""Files to wait on: pipes, eventfd, timerfd, epoll, and who is told that one is ready.

Start at `readiness.py`.
"""
